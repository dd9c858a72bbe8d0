// An application of routes that keeps values and objects, and submits jobs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"strconv"
	"time"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/blobs"
	"modelhost.example/guest/jobs"
	"modelhost.example/guest/kv"
	"modelhost.example/guest/router"
)

var (
	values *kv.Bucket
	pages  *blobs.Container
	// The last request left it open.
	left *blobs.Reader
)

func init() {
	guest.Init(load)
	router.Handle("POST /visits/{name}", visit).Describe(router.Operation{
		Summary: "Counts a visit", Consumes: "text/plain", Input: `{"type":"string"}`, Produces: "application/json", Output: `{"type":"integer"}`,
	})
	router.Handle("DELETE /visits/{name}", forget)
	router.Handle("GET /values/{key...}", value)
	router.Handle("POST /tour", tour)
	router.Handle("GET /failure", failure)
	router.Handle("GET /errors", refused)
	router.Handle("POST /pages/{name}", keep)
	router.Handle("GET /pages/{name}", page)
	router.Handle("POST /large/{name}", large)
	router.Handle("GET /left", leave)
	router.Handle("POST /fit", fit)
	router.Handle("POST /submit", submit)
	router.Handle("GET /nan", nan)
	router.Handle("GET /tree/", below)
}

func main() {}

func load(json.RawMessage) (err error) {
	if values, err = kv.Open("default"); err != nil {
		return err
	}
	pages, err = blobs.Open("default")
	return err
}

func visit(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	count, err := values.Increment(context.PathValue("name"), 1, time.Hour)
	if err != nil {
		return nil, err
	}
	return guest.JSON(count)
}

func forget(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	return guest.Text("forgotten"), values.Delete(context.PathValue("name"))
}

func value(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	value, found, err := values.Get(context.PathValue("key"))
	if err != nil || !found {
		return guest.Text("none").WithStatus(404), err
	}
	return &guest.Response{ContentType: "text/plain", Body: value}, nil
}

// tour does everything that can be done with values.
func tour(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	before, err := values.Keys("tour/")
	if err != nil {
		return nil, err
	}
	for _, key := range before {
		if err := values.Delete(key); err != nil {
			return nil, err
		}
	}
	var did []bool
	note := func(done bool, err error) {
		if err != nil {
			panic(err)
		}
		did = append(did, done)
	}
	note(values.Add("tour/a", sample.Body, time.Minute))
	note(values.Add("tour/a", nil, 0))
	note(values.Swap("tour/a", []byte{}, nil))
	note(values.Swap("tour/a", sample.Body, nil))
	note(values.Swap("tour/a", nil, nil))
	note(values.Swap("tour/a", []byte{}, []byte("é")))
	for number := range 3 {
		if err := values.SetJSON(fmt.Sprintf("tour/n/%d", number), number, 0); err != nil {
			return nil, err
		}
	}
	var last int
	note(values.GetJSON("tour/n/2", &last))
	if err := values.Set("tour/short", nil, time.Millisecond); err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Millisecond)
	_, found, err := values.Get("tour/short")
	note(found, err)
	keys, err := values.Keys("tour/n/")
	if err != nil {
		return nil, err
	}
	page, next, err := values.Page("tour/", "tour/a", 2)
	if err != nil {
		return nil, err
	}
	sum, err := values.Increment("tour/sum", -5_000_000_000, 0)
	return must(guest.JSON(map[string]any{
		"did": did, "last": last, "keys": len(keys), "page": page, "next": next, "sum": sum,
	})), err
}

func must(response *guest.Response, err error) *guest.Response {
	if err != nil {
		panic(err)
	}
	return response
}

// failure ends the call while a bucket is open.
func failure(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	if _, _, err := values.Get("a"); err != nil {
		return nil, err
	}
	panic("as asked")
}

// refused names the kind of each error.
func refused(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	_, ofBucket := kv.Open("other")
	_, _, ofText := values.Get("\xff")
	_, ofJob := jobs.Submit(jobs.Submission{Path: "fit"})
	_, ofContainer := blobs.Open("other")
	_, ofPage := pages.Get("none")
	return guest.JSON([]bool{
		errors.Is(ofBucket, kv.ErrNoSuchBucket), errors.Is(ofText, kv.ErrInvalid),
		errors.Is(values.Set("", nil, 0), kv.ErrInvalid), errors.Is(values.Set("a", make([]byte, 2<<20), 0), kv.ErrLimit),
		errors.Is(ofJob, jobs.ErrInvalid), ofContainer != nil, errors.Is(ofPage, fs.ErrNotExist),
	})
}

func keep(sample *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	return guest.Text("kept"), pages.Set(context.PathValue("name"), sample.Body)
}

func page(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	name := context.PathValue("name")
	content, err := pages.Get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return guest.Text("no page").WithStatus(404), nil
	}
	if err != nil {
		return nil, err
	}
	part, err := pages.GetRange(name, 1, 3)
	if err != nil {
		return nil, err
	}
	info, err := pages.Info(name)
	return guest.Text(fmt.Sprintf("%s %s %d", content, part, info.Size)), err
}

// large writes so many bytes, piece by piece, and reads them again.
func large(sample *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	size, err := strconv.Atoi(string(sample.Body))
	if err != nil {
		return nil, guest.Invalid("no number of bytes")
	}
	name := context.PathValue("name")
	writer, err := pages.Writer(name)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	written, read := crc32.NewIEEE(), crc32.NewIEEE()
	if _, err := io.CopyN(io.MultiWriter(writer, written), &counting{}, int64(size)); err != nil {
		return nil, err
	}
	if err := writer.Finish(); err != nil {
		return nil, err
	}
	reader, err := pages.Reader(name)
	if err != nil {
		return nil, err
	}
	length, err := io.Copy(read, reader)
	if err != nil {
		return nil, err
	}
	if err := pages.Delete(name); err != nil {
		return nil, err
	}
	return guest.Text(fmt.Sprintf("%d %t", length, written.Sum32() == read.Sum32())), nil
}

// counting is bytes that differ from piece to piece.
type counting struct{ at uint32 }

func (c *counting) Read(buffer []byte) (int, error) {
	for at := range buffer {
		c.at = c.at*1664525 + 1013904223
		buffer[at] = byte(c.at >> 24)
	}
	return len(buffer), nil
}

// leave leaves an object open, and half of another; of what the last request has left nothing can be read.
func leave(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	if err := pages.Set("left", []byte("left")); err != nil {
		return nil, err
	}
	if left != nil {
		if _, err := left.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			return nil, errors.New("it is open still")
		}
	}
	var err error
	if left, err = pages.Reader("left"); err != nil {
		return nil, err
	}
	writer, err := pages.Writer("half")
	if err != nil {
		return nil, err
	}
	_, err = writer.Write([]byte("half"))
	return guest.Text("left"), err
}

// fit is what a job does.
func fit(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	return guest.Text("fitted " + string(sample.Body)), nil
}

// submit waits for one job, and cancels another.
func submit(sample *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	job, err := jobs.Submit(jobs.Submission{Path: "/fit?fast=1", Body: sample.Body, ContentType: "text/plain", Priority: jobs.First})
	if err != nil {
		return nil, err
	}
	for job.State == jobs.Queued || job.State == jobs.Running {
		time.Sleep(10 * time.Millisecond)
		if job, _, err = jobs.Get(job.ID); err != nil {
			return nil, err
		}
	}
	answer, found, err := jobs.GetAnswer(job.ID)
	if err != nil || !found {
		return nil, errors.Join(err, errors.New("there is no answer"))
	}
	later := jobs.Submission{Path: "/fit", JSON: 1, Delay: time.Hour, Attempts: 2, IdempotencyKey: context.RequestID()}
	first, err := jobs.Submit(later)
	if err != nil {
		return nil, err
	}
	same, err := jobs.Submit(later)
	if err != nil {
		return nil, err
	}
	later.JSON = 2
	_, conflict := jobs.Submit(later)
	cancelled, found, err := jobs.Cancel(first.ID)
	if err != nil || !found {
		return nil, errors.Join(err, errors.New("there is no job"))
	}
	_, isThere, err := jobs.Get("none")
	return must(guest.JSON(map[string]any{
		"job":   []any{job.State, job.Status, job.Attempt, string(answer.Body), answer.ContentType},
		"later": []any{first.State, first.Attempts, same.ID == first.ID, errors.Is(conflict, jobs.ErrConflict), cancelled.State},
		"none":  isThere,
	})), err
}

func nan(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	return guest.JSON(guest.NewTensor([]float64{1, math.NaN()}))
}

func below(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
	return guest.Text("below " + context.Path()), nil
}
