package jobs

import (
	"errors"
	"math"
	"testing"
	"time"

	"modelhost.example/guest"
)

func TestJobsAreKeptInATest(t *testing.T) {
	defer Forget()
	job, err := Submit(Submission{Path: "/fit?a=1", JSON: map[string]int{"epochs": 3}, Delay: 1500 * time.Microsecond, Priority: Last})
	if err != nil || job.State != Queued || job.Attempts != 3 || job.Submitted.IsZero() {
		t.Fatal(job, err)
	}
	all := Submitted()
	if len(all) != 1 || all[0].Job != job {
		t.Fatal(all)
	}
	it := all[0].Submission
	if it.Path != "/fit?a=1" || string(it.Body) != `{"epochs":3}` || it.Header["content-type"] != "application/json" ||
		it.Delay != 2*time.Millisecond || it.Priority != Last {
		t.Error(it)
	}
	if answer, found, err := GetAnswer(job.ID); answer != nil || found || err != nil {
		t.Error(answer, found, err)
	}
	if err := Finish(job.ID, guest.Text("done")); err != nil {
		t.Error(err)
	}
	if answer, found, err := GetAnswer(job.ID); !found || err != nil || string(answer.Body) != "done" {
		t.Error(answer, found, err)
	}
	if job, found, err := Cancel(job.ID); job.State != Completed || job.Status != 200 || !found || err != nil {
		t.Error(job, found, err)
	}
	if _, found, err := Get("none"); found || err != nil {
		t.Error(found, err)
	}
	second, _ := Submit(Submission{})
	if job, found, err := Cancel(second.ID); job.State != Cancelled || !found || err != nil || Submitted()[1].Path != "/" {
		t.Error(job, found, err)
	}
	if err := Finish(second.ID, guest.Text("no").WithStatus(500)); err != nil || Submitted()[1].Job.State != Failed {
		t.Error(err)
	}
}

func TestAKeyIsForOneJob(t *testing.T) {
	defer Forget()
	one := Submission{Path: "/a", Body: []byte("1"), IdempotencyKey: "k", Attempts: 1, Priority: First}
	job, err := Submit(one)
	if err != nil || job.Attempts != 1 {
		t.Fatal(job, err)
	}
	if again, err := Submit(one); again != job || err != nil {
		t.Error(again, err)
	}
	one.Body = []byte("2")
	if _, err := Submit(one); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
}

func TestWhatCannotBeSubmittedIsSaid(t *testing.T) {
	defer Forget()
	for expected, it := range map[string]Submission{
		"the path is none: it begins with `/`":                                                         {Path: "fit"},
		"the body: JSON has no number NaN; a tensor, and a pointer that is nil, are written with null": {JSON: math.NaN()},
		"a time of -1s":                         {Wait: -time.Second},
		"there is no priority 3":                {Priority: 3},
		"-1 attempts":                           {Attempts: -1},
		"a text of the submission is not UTF-8": {Header: map[string]string{"x": "\xff"}},
	} {
		_, err := Submit(it)
		var said *Error
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &said) || said.Text != expected {
			t.Errorf("%v, expected %s", err, expected)
		}
	}
	given, err := checked(Submission{ContentType: "text/plain", Header: map[string]string{"Content-Type": "text/csv"}})
	if err != nil || len(given.headers) != 1 || given.headers[0] != (header{"content-type", "text/csv"}) {
		t.Error(given, err)
	}
	for kind, expected := range []error{ErrInvalid, ErrConflict, ErrLimit, ErrUnavailable} {
		if err := errorOf(uint32(kind), "a"); !errors.Is(err, expected) || err.Error() == "" {
			t.Error(kind, err)
		}
	}
}
