package jobs

// The contract's `jobs`.

import (
	"time"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
)

type word = abi.Word

//go:wasmimport modelhost:handler/jobs@0.1.0 submit
func importSubmit(submission, result unsafe.Pointer)

//go:wasmimport modelhost:handler/jobs@0.1.0 get
func importGet(id, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/jobs@0.1.0 get-answer
func importGetAnswer(id, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/jobs@0.1.0 cancel
func importCancel(id, length word, result unsafe.Pointer)

// A text as it lies in memory.
type text struct{ start, length word }

func lower(value string) text {
	start, length := abi.Text(value)
	return text{start, length}
}

func (t text) lifted() string { return abi.StringAt(abi.Pointer(t.start), t.length) }

func orNone(value string) optional[text] { return optional[text]{value != "", lower(value)} }

// The argument of `submit`.
type lowered struct {
	path                text
	headers, count      word
	body, length        word
	priority            optional[uint8]
	delay, wait         optional[uint64]
	attempts            optional[uint32]
	webhook, idempotent optional[text]
}

// A job.
type lifted struct {
	id                 text
	state              uint8
	attempt, attempts  word
	submitted, changed uint64
	failure            optional[text]
	status             optional[uint16]
}

// The results; an error lies where a value would.
type (
	submitted struct {
		isError bool
		job     lifted
	}
	found struct {
		isError bool
		job     optional[lifted]
	}
	answered struct {
		isError bool
		answer  optional[struct {
			status         uint16
			headers, count word
			body, length   word
		}]
	}
	failure struct {
		kind uint8
		text text
	}
)

func failed(at unsafe.Pointer) error {
	told, said := (*failure)(at), ""
	// The second kind has no text.
	if told.kind != 1 {
		said = told.text.lifted()
	}
	return errorOf(uint32(told.kind), said)
}

func (it *lifted) read() Job {
	job := Job{
		ID: it.id.lifted(), State: states[it.state], Attempt: int(it.attempt), Attempts: int(it.attempts),
		Submitted: time.UnixMilli(int64(it.submitted)), Changed: time.UnixMilli(int64(it.changed)),
	}
	if it.failure.isThere {
		job.Error = it.failure.value.lifted()
	}
	if it.status.isThere {
		job.Status = int(it.status.value)
	}
	return job
}

func submit(it given) (job Job, err error) {
	abi.Import(func() {
		headers := make([]text, 0, 2*len(it.headers))
		for _, header := range it.headers {
			headers = append(headers, lower(header.name), lower(header.value))
		}
		argument, result := &lowered{
			path: lower(it.path), headers: abi.Address(headers), count: word(len(it.headers)),
			body: abi.Address(it.body), length: word(len(it.body)), priority: it.priority, delay: it.delay, wait: it.wait,
			attempts: it.attempts, webhook: orNone(it.webhook), idempotent: orNone(it.idempotencyKey),
		}, new(submitted)
		importSubmit(abi.Keep(argument), abi.Keep(result))
		if result.isError {
			err = failed(unsafe.Pointer(&result.job))
			return
		}
		job = result.job.read()
	})
	return job, err
}

func get(id string) (Job, bool, error) { return asked(importGet, id) }

func cancel(id string) (Job, bool, error) { return asked(importCancel, id) }

func asked(call func(id, length word, result unsafe.Pointer), id string) (job Job, isThere bool, err error) {
	abi.Import(func() {
		name, result := lower(id), new(found)
		call(name.start, name.length, abi.Keep(result))
		switch {
		case result.isError:
			err = failed(unsafe.Pointer(&result.job))
		case result.job.isThere:
			job, isThere = result.job.value.read(), true
		}
	})
	return job, isThere, err
}

func getAnswer(id string) (answer *guest.Response, err error) {
	abi.Import(func() {
		name, result := lower(id), new(answered)
		importGetAnswer(name.start, name.length, abi.Keep(result))
		switch {
		case result.isError:
			err = failed(unsafe.Pointer(&result.answer))
		case result.answer.isThere:
			it := &result.answer.value
			answer = &guest.Response{Status: int(it.status), Body: abi.BytesAt(abi.Pointer(it.body), it.length)}
			headers := abi.TextsAt(abi.Pointer(it.headers), 2*it.count)
			setHeaders(answer, headers)
		}
	})
	return answer, err
}

// setHeaders takes names and values in turn.
func setHeaders(answer *guest.Response, headers []string) {
	answer.Header = map[string]string{}
	for at := 0; at+1 < len(headers); at += 2 {
		if headers[at] == "content-type" {
			answer.ContentType = headers[at+1]
			continue
		}
		answer.Header[headers[at]] = headers[at+1]
	}
}
