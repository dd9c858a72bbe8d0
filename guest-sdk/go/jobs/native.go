//go:build !wasip1

package jobs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"modelhost.example/guest"
)

var (
	lock   sync.Mutex
	stored []*kept
)

// kept is a job in memory.
type kept struct {
	Stored
	answer *guest.Response
}

// Stored is a job as it was submitted in a test: its content type is in Header, by names in lower case, and
// its JSON in Body.
type Stored struct {
	Job Job
	Submission
}

// Submitted has the jobs that were submitted in a test, in order.
func Submitted() []Stored {
	lock.Lock()
	defer lock.Unlock()
	all := make([]Stored, 0, len(stored))
	for _, it := range stored {
		all = append(all, it.Stored)
	}
	return all
}

// Finish ends a job in a test, with this answer: one whose status is 400 or more has failed.
func Finish(id string, answer *guest.Response) error {
	lock.Lock()
	defer lock.Unlock()
	it := find(id)
	if it == nil {
		return fmt.Errorf("there is no job `%s`", id)
	}
	copied := *answer
	if copied.Status == 0 {
		copied.Status = 200
	}
	it.answer = &copied
	it.Job.State, it.Job.Attempt, it.Job.Status, it.Job.Changed = Completed, 1, copied.Status, time.Now()
	if copied.Status >= 400 {
		it.Job.State = Failed
	}
	return nil
}

// Forget removes all jobs, in a test.
func Forget() {
	lock.Lock()
	defer lock.Unlock()
	stored = nil
}

func find(id string) *kept {
	at := slices.IndexFunc(stored, func(it *kept) bool { return it.Job.ID == id })
	if at < 0 {
		return nil
	}
	return stored[at]
}

func submit(it given) (Job, error) {
	if !strings.HasPrefix(it.path, "/") {
		return Job{}, invalid("the path is none: it begins with `/`")
	}
	lock.Lock()
	defer lock.Unlock()
	for _, known := range stored {
		if it.idempotencyKey == "" || known.IdempotencyKey != it.idempotencyKey {
			continue
		}
		if known.Path != it.path || !bytes.Equal(known.Body, it.body) {
			return Job{}, errorOf(1, "")
		}
		return known.Job, nil
	}
	now := time.Now()
	job := Job{
		ID: fmt.Sprintf("00000000-0000-7000-8000-%012d", len(stored)+1), State: Queued, Attempts: 3, Submitted: now, Changed: now,
	}
	if it.attempts.isThere {
		job.Attempts = int(it.attempts.value)
	}
	priority := Normal
	if it.priority.isThere {
		priority = map[uint8]Priority{0: First, 2: Last}[it.priority.value]
	}
	headers := map[string]string{}
	for _, header := range it.headers {
		headers[header.name] = header.value
	}
	stored = append(stored, &kept{Stored: Stored{job, Submission{
		Path: it.path, ContentType: headers["content-type"], Header: headers, Body: bytes.Clone(it.body), Priority: priority,
		Delay: time.Duration(it.delay.value) * time.Millisecond, Wait: time.Duration(it.wait.value) * time.Millisecond,
		Attempts: int(it.attempts.value), Webhook: it.webhook, IdempotencyKey: it.idempotencyKey,
	}}})
	return job, nil
}

func get(id string) (Job, bool, error) {
	lock.Lock()
	defer lock.Unlock()
	it := find(id)
	if it == nil {
		return Job{}, false, nil
	}
	return it.Job, true, nil
}

func getAnswer(id string) (*guest.Response, error) {
	lock.Lock()
	defer lock.Unlock()
	it := find(id)
	if it == nil || it.answer == nil {
		return nil, nil
	}
	answer := *it.answer
	answer.Header = maps.Clone(answer.Header)
	return &answer, nil
}

func cancel(id string) (Job, bool, error) {
	lock.Lock()
	defer lock.Unlock()
	it := find(id)
	if it == nil {
		return Job{}, false, nil
	}
	if it.Job.State == Queued || it.Job.State == Running {
		it.Job.State, it.Job.Changed = Cancelled, time.Now()
	}
	return it.Job, true, nil
}
