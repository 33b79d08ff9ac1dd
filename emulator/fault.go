package emulator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is one of the calls a fault can befall.
type Kind string

// The calls.
const (
	KindIngest   Kind = "ingest"
	KindToken    Kind = "token"
	KindMetadata Kind = "metadata"
	KindQuery    Kind = "query"
	KindMgmt     Kind = "mgmt"
)

// When is the moment of a request at which a fault strikes.
type When string

// The moments. All calls but ingest have the first and the third.
const (
	OnArrival    When = "arrival"       // nothing is checked, and of the body nothing is read
	MidBody      When = "mid_body"      // half of the body is read
	BeforeCommit When = "before_commit" // the request is whole and sound, nothing is stored; the default
	AfterCommit  When = "after_commit"  // the rows are stored
)

// As is the kind of body a fault answers with when it brings none of its own.
type As string

// The kinds of bodies.
const (
	AsJSON  As = "json"  // the service's error document; the default
	AsText  As = "text"  // the plain words of the service
	AsHTML  As = "html"  // a gateway's page
	AsEmpty As = "empty" // nothing
	AsJunk  As = "junk"  // bytes that are no JSON
)

// Match says which requests a fault befalls. An empty field matches all.
type Match struct {
	Kind      Kind   `json:"kind,omitempty"`     // empty: ingest
	Database  string `json:"database,omitempty"` // in any case
	Table     string `json:"table,omitempty"`
	Format    string `json:"format,omitempty"` // in any case
	Mapping   string `json:"mapping,omitempty"`
	RequestID string `json:"request_id,omitempty"` // what the client request id begins with
	Contains  string `json:"contains,omitempty"`   // somewhere in the decoded body; only before and after the commit
}

// Fault is what happens to the requests it matches: first a delay or a hang,
// then a reset, or an answer if Status is set; with neither the request continues
// as if nothing had been.
type Fault struct {
	Match    Match   `json:"match,omitzero"`
	Skip     int     `json:"skip,omitempty"`     // so many matching requests are spared first
	Times    int     `json:"times,omitempty"`    // so many are struck; 0: all until it is removed
	Fraction float64 `json:"fraction,omitempty"` // of the matching requests, spread evenly; 0: all
	When     When    `json:"when,omitempty"`

	Delay time.Duration `json:"-"`              // "delay" in JSON, as "1.5s"
	Hang  bool          `json:"hang,omitempty"` // until it is removed, the client leaves or the server closes
	Reset bool          `json:"reset,omitempty"`

	Status    int               `json:"status,omitempty"`
	Code      string            `json:"code,omitempty"` // empty: the documented one of the status
	Message   string            `json:"message,omitempty"`
	Permanent *bool             `json:"permanent,omitempty"`
	As        As                `json:"as,omitempty"`
	Body      string            `json:"body,omitempty"` // sent as it is, instead of one by As
	Type      string            `json:"content_type,omitempty"`
	Header    map[string]string `json:"header,omitempty"` // Retry-After, Location, …

	Truncate bool          `json:"truncate,omitempty"` // all is announced, half is sent
	Size     int64         `json:"size,omitempty"`     // the body is repeated up to so many bytes; below 0: without end
	Trickle  time.Duration `json:"-"`                  // "trickle" in JSON: between one byte of the body and the next
}

// check returns an error for a fault with an unknown kind, moment or form, and for one that could
// never happen; nil when the fault is usable.
func (f *Fault) check() error {
	oneOf := func(what, got string, known ...string) error {
		if got != "" && !slices.Contains(known, got) {
			return fmt.Errorf("check fault: %s %q: want one of %s", what, got, strings.Join(known, ", "))
		}
		return nil
	}
	return cmp.Or(
		oneOf("kind", string(f.Match.Kind), string(KindIngest), string(KindToken), string(KindMetadata), string(KindQuery), string(KindMgmt)),
		oneOf("when", string(f.When), string(OnArrival), string(MidBody), string(BeforeCommit), string(AfterCommit)),
		oneOf("as", string(f.As), string(AsJSON), string(AsText), string(AsHTML), string(AsEmpty), string(AsJunk)),
		f.checkSense(),
	)
}

// checkSense returns an error for fields that are out of range or contradict each other, such as a
// body to match at a moment when none has been read.
func (f *Fault) checkSense() error {
	early := f.When == OnArrival || f.When == MidBody // before the body is read to its end
	// words is whether the fault describes an answer.
	words := f.Code != "" || f.Message != "" || f.Permanent != nil || f.As != "" || f.Body != "" || f.Type != "" ||
		len(f.Header) > 0 || f.Truncate || f.Size != 0 || f.Trickle != 0
	switch {
	case f.Match.Contains != "" && early:
		return fmt.Errorf("check fault: contains: the body is not known at %q", f.When)
	case f.Match.Kind != "" && f.Match.Kind != KindIngest && (f.When == MidBody || f.When == AfterCommit || f.Match.Contains != ""):
		return fmt.Errorf("check fault: a %s call has no records and only the moments %s and %s", f.Match.Kind, OnArrival, BeforeCommit)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("check fault: status %d: want 200 to 599", f.Status)
	case f.Fraction < 0 || f.Fraction > 1 || f.Skip < 0 || f.Times < 0 || f.Delay < 0 || f.Trickle < 0:
		return errors.New("check fault: fraction, skip, times, delay or trickle out of range")
	case f.Reset && f.Status != 0:
		return errors.New("check fault: a reset gives no answer: want reset or status")
	case words && f.Status == 0:
		return errors.New("check fault: an answer needs a status")
	case !f.Hang && !f.Reset && f.Status == 0 && f.Delay == 0:
		return errors.New("check fault: nothing would happen: want hang, reset, delay or status")
	}
	return nil
}

// Script is a fault at work.
type Script struct {
	id    int
	fault Fault // immutable once set
	all   *faults

	// The rest is guarded by the lock of faults.
	seen    int // matching requests, the skipped ones not counted
	skipped int
	hits    int
	holds   int // requests, from the hit until they go on or have ended

	hit     signal
	left    signal
	removed chan struct{} // closed once, by its removal
}

// faults are the scripted faults in the order in which they were added. At each moment of a request at
// most one of them is applied: the first that matches and is due.
type faults struct {
	mu   sync.Mutex
	list []*Script
	last int
}

// Fail puts a fault to work. A fault that could never strike, or that is
// misspelt, makes it panic: that is a mistake in the test.
func (s *Server) Fail(f Fault) *Script {
	script, err := s.faults.add(f)
	if err != nil {
		panic(err)
	}
	return script
}

// FailNext answers the next n sound requests with the documented error of
// status, and stores nothing of them.
func (s *Server) FailNext(n, status int) *Script { return s.Fail(Fault{Times: n, Status: status}) }

// Throttle answers the next n requests with 429.
func (s *Server) Throttle(n int) *Script { return s.FailNext(n, 429) }

// Hang holds every sound request before it is stored, until release is called;
// then they go on.
func (s *Server) Hang() (release func()) { return s.Fail(Fault{Hang: true}).Remove }

// Recover removes every fault.
func (s *Server) Recover() {
	for _, script := range s.faults.all() {
		script.Remove()
	}
}

// all returns the faults in effect, in the order in which they were added.
func (fs *faults) all() []*Script {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.list // a change makes a new list
}

// add validates a fault, fills in its default moment and kind, and puts it into effect. The error says
// what is wrong with the fault; nothing is added then.
func (fs *faults) add(f Fault) (*Script, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.When == "" {
		f.When = BeforeCommit
	}
	if f.Match.Kind == "" {
		f.Match.Kind = KindIngest
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.last++
	script := &Script{id: fs.last, fault: f, all: fs, removed: make(chan struct{})}
	fs.list = append(slices.Clip(fs.list), script)
	return script, nil
}

// Remove takes the fault out of effect and releases the requests that it holds. Later calls do
// nothing.
func (sc *Script) Remove() {
	sc.all.mu.Lock()
	defer sc.all.mu.Unlock()
	i := slices.Index(sc.all.list, sc)
	if i >= 0 {
		sc.all.list = slices.Delete(slices.Clone(sc.all.list), i, i+1)
		close(sc.removed)
	}
}

// Hits returns how many requests the fault was applied to so far.
func (sc *Script) Hits() int {
	sc.all.mu.Lock()
	defer sc.all.mu.Unlock()
	return sc.hits
}

// Wait returns nil as soon as the fault was applied to n requests, or ctx's error.
func (sc *Script) Wait(ctx context.Context, n int) error {
	return sc.hit.wait(ctx, func() bool { return sc.Hits() >= n })
}

// WaitLeft returns nil as soon as the fault holds no request, because the clients of all that it held
// have left, or ctx's error. To remove a fault just after its client was killed may let the request
// go on: the server has not heard of it yet.
func (sc *Script) WaitLeft(ctx context.Context) error {
	return sc.left.wait(ctx, func() bool {
		sc.all.mu.Lock()
		defer sc.all.mu.Unlock()
		return sc.holds == 0
	})
}

// release notes that the fault no longer holds a request that it has struck.
func (sc *Script) release() {
	sc.all.mu.Lock()
	sc.holds--
	sc.all.mu.Unlock()
	sc.left.fire()
}

// has reports whether a fault is set for this moment. The caller then prepares for a moment that costs
// something, such as stopping in the middle of a body.
func (fs *faults) has(when When) bool {
	return slices.ContainsFunc(fs.all(), func(sc *Script) bool { return sc.fault.When == when })
}

// strike returns the fault to apply to a request at this moment and counts it as applied; nil when
// there is none. decoded is the decoded body, nil where it is not known yet.
func (fs *faults) strike(when When, kind Kind, r *Request, decoded []byte) *Script {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, sc := range fs.list {
		if sc.fault.When == when && sc.fault.Match.fits(kind, r, decoded) && sc.due() {
			return sc
		}
	}
	return nil
}

// due counts one more matching request and reports whether the fault is applied to it: not to the
// first Skip requests, not after Times applications, and to the given Fraction of the others, evenly
// spread. The caller holds the lock of faults.
func (sc *Script) due() bool {
	f := sc.fault
	if f.Times > 0 && sc.hits >= f.Times {
		return false
	}
	if sc.skipped < f.Skip {
		sc.skipped++
		return false
	}
	sc.seen++
	if f.Fraction > 0 && int(float64(sc.seen)*f.Fraction) == int(float64(sc.seen-1)*f.Fraction) {
		return false
	}
	sc.hits++
	sc.holds++
	sc.hit.fire()
	return true
}

// fits reports whether a request of this kind matches all fields that are set. decoded is the decoded
// body, in which Contains is looked for.
func (m Match) fits(kind Kind, r *Request, decoded []byte) bool {
	return m.Kind == kind &&
		(m.Database == "" || strings.EqualFold(m.Database, r.Database)) &&
		(m.Table == "" || m.Table == r.Table) &&
		(m.Format == "" || strings.EqualFold(m.Format, r.Format)) &&
		(m.Mapping == "" || m.Mapping == r.Mapping) &&
		strings.HasPrefix(r.ClientRequestID, m.RequestID) &&
		(m.Contains == "" || bytes.Contains(decoded, []byte(m.Contains)))
}
