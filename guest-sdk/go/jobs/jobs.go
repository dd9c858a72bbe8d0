// Package jobs submits jobs to the handler's own endpoint, which has to have some, `jobs = "on"`: requests
// that are stored, and run later as a POST.
//
//	job, err := jobs.Submit(jobs.Submission{
//		Path: "/train", JSON: order, Delay: 5 * time.Second, IdempotencyKey: order.Dataset,
//	})
//
// A handler that imports this package is loaded only by an endpoint that has jobs. In a test the jobs are in
// memory and none is run: Submitted has them, Finish ends one, Forget begins anew.
package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/encode"
)

// Kinds of an [Error], for errors.Is.
var (
	// ErrInvalid says that something of a submission cannot be used. Nothing was stored.
	ErrInvalid = errors.New("invalid")
	// ErrConflict says that the idempotency key was used for a job with another path, query or body.
	ErrConflict = errors.New("conflict")
	// ErrLimit says that it is beyond a limit of the endpoint. Nothing was stored.
	ErrLimit = errors.New("beyond a limit")
	// ErrUnavailable says that the store cannot be used now; whether a change was made is not known.
	ErrUnavailable = errors.New("unavailable")
)

// An Error says why something was not done with a job. As what a function returns it is 500, and its text
// goes to the log.
type Error struct {
	// One of [ErrInvalid], [ErrConflict], [ErrLimit] and [ErrUnavailable].
	Kind error
	Text string
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Kind }

// Priority is the order in which jobs are run.
type Priority uint8

// Jobs that come first are run before all others, those that come last after them.
const (
	Normal Priority = iota
	First
	Last
)

// A Submission is a POST to the endpoint, which is to be stored as a job.
type Submission struct {
	// Below the endpoint's own path, with the query: `/train?fast=1`. Empty is that path itself.
	Path string
	// Of the body, unless Header has it or the body is JSON.
	ContentType string
	Header      map[string]string
	Body        []byte
	// Unless nil, a value that is the body as JSON, in place of Body.
	JSON     any
	Priority Priority
	// Not before this time is over.
	Delay time.Duration
	// Fails if its first attempt has not begun after this time; 0 for any time.
	Wait time.Duration
	// The most attempts; 0 for the endpoint's `limits.job_attempts`.
	Attempts int
	// A URL that gets the result, at a place that the endpoint's `allow_outbound` lists.
	Webhook string
	// A second submission with the same key is the same job: a job that submits others may run again.
	IdempotencyKey string
}

// A State says how far a job is.
type State string

// A job is queued while it waits, for its time or for a place, and running while an attempt is under way.
// Then it is completed; or failed, by its last attempt or an answer that is an error; or cancelled.
const (
	Queued    State = "queued"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// states in the order of the contract.
var states = [...]State{Queued, Running, Completed, Failed, Cancelled}

// A Job is a request that is stored, as it was when the host was asked.
type Job struct {
	ID    string
	State State
	// Attempts that have begun, and the most that there will be.
	Attempt, Attempts int
	Submitted         time.Time
	// When its state changed last.
	Changed time.Time
	// Why the last attempt has failed, or empty.
	Error string
	// The status of its answer, or 0 as long as it has none.
	Status int
}

// Submit stores a job, and returns it when it is stored.
func Submit(submission Submission) (Job, error) {
	given, err := checked(submission)
	if err != nil {
		return Job{}, err
	}
	return submit(given)
}

// Get returns a job of the endpoint, and whether there is one of this id.
func Get(id string) (job Job, found bool, err error) {
	if err := check("the id", id); err != nil {
		return Job{}, false, err
	}
	return get(id)
}

// GetAnswer returns the answer to a job, and whether there is one. The names of its headers are in lower
// case; its content type is not among them.
func GetAnswer(id string) (answer *guest.Response, found bool, err error) {
	if err := check("the id", id); err != nil {
		return nil, false, err
	}
	answer, err = getAnswer(id)
	return answer, answer != nil, err
}

// Cancel cancels a job, whose run is stopped; one that is finished stays as it is. It returns the job as it
// is then, and whether there is one of this id.
func Cancel(id string) (job Job, found bool, err error) {
	if err := check("the id", id); err != nil {
		return Job{}, false, err
	}
	return cancel(id)
}

// given is a submission as the contract has it.
type given struct {
	path           string
	headers        []header
	body           []byte
	priority       optional[uint8]
	delay, wait    optional[uint64]
	attempts       optional[uint32]
	webhook        string
	idempotencyKey string
}

type header struct{ name, value string }

// optional is a value that may be none, as it lies in memory.
type optional[T any] struct {
	isThere bool
	value   T
}

func some[T any](value T) optional[T] { return optional[T]{true, value} }

func checked(it Submission) (given, error) {
	body, contentType := it.Body, it.ContentType
	if it.JSON != nil {
		written, err := encode.JSON(it.JSON)
		if err != nil {
			return given{}, invalid("the body: %s", err)
		}
		if body = written; contentType == "" {
			contentType = "application/json"
		}
	}
	made := given{body: body, path: it.Path, webhook: it.Webhook, idempotencyKey: it.IdempotencyKey}
	if made.path == "" {
		made.path = "/"
	}
	texts := []string{it.Path, contentType, it.Webhook, it.IdempotencyKey}
	for name, value := range it.Header {
		if name = strings.ToLower(name); name == "content-type" {
			contentType = ""
		}
		made.headers = append(made.headers, header{name, value})
		texts = append(texts, name, value)
	}
	if contentType != "" {
		made.headers = append(made.headers, header{"content-type", contentType})
	}
	for _, text := range texts {
		if err := check("a text of the submission", text); err != nil {
			return given{}, err
		}
	}
	switch it.Priority {
	case Normal:
	case First:
		made.priority = some[uint8](0)
	case Last:
		made.priority = some[uint8](2)
	default:
		return given{}, invalid("there is no priority %d", it.Priority)
	}
	if it.Delay < 0 || it.Wait < 0 {
		return given{}, invalid("a time of %s", min(it.Delay, it.Wait))
	}
	if it.Delay > 0 {
		made.delay = some(encode.Milliseconds(it.Delay))
	}
	if it.Wait > 0 {
		made.wait = some(encode.Milliseconds(it.Wait))
	}
	if int64(it.Attempts) < 0 || int64(it.Attempts) > 1<<32-1 {
		return given{}, invalid("%d attempts", it.Attempts)
	}
	if it.Attempts > 0 {
		made.attempts = some(uint32(it.Attempts))
	}
	return made, nil
}

func invalid(format string, arguments ...any) error {
	return &Error{ErrInvalid, fmt.Sprintf(format, arguments...)}
}

// check refuses what no host takes as text.
func check(what, text string) error {
	if !utf8.ValidString(text) {
		return invalid("%s is not UTF-8", what)
	}
	return nil
}

// errorOf is an error of the contract, whose kinds are in this order.
func errorOf(kind uint32, text string) error {
	switch kind {
	case 0:
		return &Error{ErrInvalid, text}
	case 1:
		return &Error{ErrConflict, "the idempotency key was used for another job"}
	case 2:
		return &Error{ErrLimit, text}
	}
	return &Error{ErrUnavailable, "the store of the jobs cannot be used: " + text}
}
