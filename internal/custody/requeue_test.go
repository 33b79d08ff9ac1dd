package custody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
)

// bench has a quarantine on disk, and a service that judges bodies.
type bench struct {
	t        *testing.T
	dir      string
	store    *quarantine.Store
	asked    []string // "table/mapping body"
	accepted int
	judge    func(in *kusto.Ingest) kusto.Answer
	shape    func(*record.Rejected) ([]byte, error)
	log      bytes.Buffer
	ids      byte
}

func newBench(t *testing.T, records ...string) *bench {
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "quarantine")}
	b.judge = func(*kusto.Ingest) kusto.Answer { return kusto.Answer{Verdict: kusto.Accepted, Status: 200} }
	b.shape = func(r *record.Rejected) ([]byte, error) { return r.Data, nil }
	b.open()
	var all []record.Rejected
	for i, text := range records {
		r := record.Rejected{
			File: record.File{Input: "app", ID: 7}, Path: "/log/app", Route: record.Route{Cluster: "http://c", Database: "D", Table: "T", Format: record.JSON, Mapping: "m"},
			Offset: int64(i * 100), Length: 100, Data: []byte(text), Reason: record.Malformed, Message: "why",
		}
		switch text {
		case "withheld":
			r.Withhold()
		case "redacted":
			r.Redacted = true
		case "cut":
			r.Truncated = true
		case "avro":
			r.Route.Format = record.Avro
		case "avro of before":
			r.Route.Format, r.Reason = record.Avro, record.Refused
		case "block1", "block2":
			r.Route.Format, r.Reason, r.Header = record.Avro, record.Refused, []byte("Obj1")
		case "block3":
			r.Route.Format, r.Reason, r.Header = record.Avro, record.Refused, []byte("Obj2")
		case "other":
			r.Route.Table = "U"
		}
		all = append(all, r)
	}
	if err := b.store.Put(all); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) open() {
	b.t.Helper()
	var err error
	b.store, err = quarantine.Open(b.dir, quarantine.DefaultConfig(), quarantine.Options{Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
	if err != nil {
		b.t.Fatal(err)
	}
	store := b.store
	b.t.Cleanup(func() { store.Close() })
}

// left are the lines of quarantine.
func (b *bench) left() (all []string) {
	b.t.Helper()
	if err := quarantine.List(b.dir, func(e quarantine.Entry) error {
		text := fmt.Sprint(e.ID(), " ", string(e.Data), " ", e.Reason, " ", e.Code, " ", e.Message)
		if e.Perhaps != "" {
			text += " perhaps " + e.Perhaps[:2]
		}
		all = append(all, text)
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *bench) lines() (all []string) {
	if err := quarantine.List(b.dir, func(e quarantine.Entry) error { all = append(all, e.ID()); return nil }); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *bench) requeue(ctx context.Context, store Store, r Requeue) (*Requeued, error) {
	q := Requeuing{
		Dir: b.dir, Store: store,
		Ingest: func(_ context.Context, cluster string, in *kusto.Ingest) kusto.Answer {
			b.asked = append(b.asked, cluster+" "+in.Table+"/"+in.Mapping+" "+strings.ReplaceAll(string(in.Body), "\n", "|"))
			if _, err := os.Stat(filepath.Join(b.dir, "requeue.json")); err != nil {
				b.t.Errorf("sent without a note: %v", err)
			}
			return b.judge(in)
		},
		Shape:    func(r *record.Rejected, _ record.BatchID) ([]byte, error) { return b.shape(r) },
		Accepted: func(*record.Rejected) { b.accepted++ },
		NewID:    func() record.BatchID { b.ids++; return record.BatchID{b.ids} },
		Now:      time.Now, Logger: slog.New(slog.DiscardHandler),
	}
	return q.Requeue(ctx, r)
}

func (b *bench) run(r Requeue) *Requeued {
	b.t.Helper()
	if r.Lines == nil {
		r.Lines = b.lines()
	}
	out, err := b.requeue(b.t.Context(), b.store, r)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "requeue.json")); err == nil {
		b.t.Error("the note is left behind")
	}
	return out
}

func (b *bench) is(what string, got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

func refusal(v kusto.Verdict, status int, code string) kusto.Answer {
	return kusto.Answer{Verdict: v, Status: status, Wrote: status != 0, Err: &kusto.Error{Status: status, Code: code, Message: "no"}}
}

// TestOnlyAnAcceptanceRemoves: what is accepted leaves, in the route it was for, and what
// was not asked for stays.
func TestOnlyAnAcceptanceRemoves(t *testing.T) {
	b := newBench(t, "a", "b", "other", "c\n", "d")
	out := b.run(Requeue{Lines: []string{"1:1", "1:3", "1:4", "1:5", "9:9"}})
	b.is("asked", b.asked, "http://c T/m a|c|d|", "http://c U/m other|")
	b.is("left", b.left(), "1:2 b malformed  why")
	if out.Accepted != 4 || b.accepted != 4 || len(out.Batches) != 2 || out.Left+out.Refused+out.Unknown+out.Withheld != 0 {
		t.Errorf("%+v, %d counted", out, b.accepted)
	}
}

// TestAnotherTableAndMapping: records go where they are told to, for this once.
func TestAnotherTableAndMapping(t *testing.T) {
	b := newBench(t, "a", "other")
	none := ""
	b.judge = func(in *kusto.Ingest) kusto.Answer {
		if bytes.Contains(in.Body, []byte("other")) {
			return refusal(kusto.BadData, 400, "Bad")
		}
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	out := b.run(Requeue{Table: "X", Mapping: &none})
	b.is("asked", b.asked, "http://c X/ a|other|", "http://c X/ a|", "http://c X/ other|")
	b.is("left", b.left(), "1:2 other refused Bad requeued to X: no")
	if out.Accepted != 1 || out.Refused != 1 {
		t.Errorf("%+v", out)
	}
	b.judge = func(*kusto.Ingest) kusto.Answer { return kusto.Answer{Verdict: kusto.Accepted} }
	b.asked = nil
	b.run(Requeue{})
	b.is("asked later", b.asked, "http://c U/m other|")
}

// TestOneAtFaultIsFoundAlone: its neighbours are accepted, and it stays with the new
// reason; where none is usable nobody looks for one.
func TestOneAtFaultIsFoundAlone(t *testing.T) {
	b := newBench(t, "a", "b", "bad", "d", "e")
	b.judge = func(in *kusto.Ingest) kusto.Answer {
		if bytes.Contains(in.Body, []byte("bad")) {
			return refusal(kusto.BadData, 400, "Bad")
		}
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	out := b.run(Requeue{})
	b.is("left", b.left(), "1:3 bad refused Bad no")
	if out.Accepted != 4 || out.Refused != 1 || len(out.Notes) != 1 || out.Notes[0].Line != "1:3" {
		t.Errorf("%+v", out)
	}
}

// TestWhatIsNotWholeIsNotSent: what is kept of a record must be all of it; a redacted one
// goes as it went before, and past the settings of its input.
func TestWhatIsNotWholeIsNotSent(t *testing.T) {
	b := newBench(t, "withheld", "cut", "avro", "redacted", "unshapable", "a")
	b.shape = func(r *record.Rejected) ([]byte, error) {
		switch string(r.Data) {
		case "unshapable":
			return nil, errors.New("left out now")
		case "redacted":
			t.Error("a redacted record is shaped again")
		}
		return append([]byte("shaped "), r.Data...), nil
	}
	out := b.run(Requeue{})
	b.is("asked", b.asked, "http://c T/m redacted|shaped a|")
	if out.Withheld != 3 || out.Refused != 1 || out.Accepted != 2 || len(b.left()) != 4 {
		t.Errorf("%+v; %q", out, b.left())
	}
	if text := strings.Join(out.Words(), "\n"); !strings.Contains(text, "1:1 withheld: its bytes are withheld") || !strings.Contains(text, "left out now") {
		t.Errorf("it tells\n%s", text)
	}
}

// TestAvroBlocksAreSentBehindTheirHeader: a block goes as it was sent before, and with those of
// its header alone; one that is kept without a header is not sent, and the reason is told.
func TestAvroBlocksAreSentBehindTheirHeader(t *testing.T) {
	b := newBench(t, "block1", "block3", "avro of before", "avro", "block2")
	b.shape = func(r *record.Rejected) ([]byte, error) {
		t.Errorf("%s is shaped", r.Data)
		return r.Data, nil
	}
	b.judge = func(in *kusto.Ingest) kusto.Answer {
		if bytes.Contains(in.Body, []byte("block2")) {
			return refusal(kusto.BadData, 400, "Bad")
		}
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	out := b.run(Requeue{})
	b.is("asked", b.asked, "http://c T/m Obj1block1block2", "http://c T/m Obj1block1", "http://c T/m Obj1block2", "http://c T/m Obj2block3")
	b.is("left", b.left(), "1:3 avro of before refused  why", "1:4 avro malformed  why", "1:5 block2 refused Bad no")
	if out.Accepted != 2 || out.Refused != 1 || out.Withheld != 2 {
		t.Errorf("%+v", out)
	}
	text := strings.Join(out.Words(), "\n")
	for _, want := range []string{"1:3 withheld: it is a block of an Avro file, and the version of the agent", "1:4 withheld: it is a block of an Avro file that the agent itself rejected"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not tell %q:\n%s", want, text)
		}
	}
}

// TestAnUnknownOutcomeIsTold: the records stay, marked, and nothing more is sent.
func TestAnUnknownOutcomeIsTold(t *testing.T) {
	b := newBench(t, "a", "other")
	b.judge = func(*kusto.Ingest) kusto.Answer { return refusal(kusto.Unknown, 502, "") }
	out := b.run(Requeue{})
	b.is("left", b.left(), "1:1 a malformed  why perhaps 01", "1:2 other malformed  why")
	if out.Unknown != 1 || out.Left != 1 || out.Exit != exit.Unreachable || !out.Batches[0].Unknown {
		t.Errorf("%+v", out)
	}
}

// TestWhatIsAboutTheTableEndsItAll: the records stay as they were.
func TestWhatIsAboutTheTableEndsItAll(t *testing.T) {
	for _, c := range []struct {
		ans  kusto.Answer
		code int
	}{
		{refusal(kusto.NotSent, 0, ""), exit.Unreachable}, {refusal(kusto.Throttled, 429, ""), exit.Unreachable},
		{refusal(kusto.Hold, 400, "NoTable"), exit.Failed}, {refusal(kusto.Auth, 401, ""), exit.Refused}, {refusal(kusto.Hold, 403, "Forbidden"), exit.Refused},
	} {
		b := newBench(t, "a", "other")
		was := b.left()
		b.judge = func(*kusto.Ingest) kusto.Answer { return c.ans }
		out := b.run(Requeue{})
		b.is("left", b.left(), was...)
		if out.Left != 2 || out.Exit != c.code || out.Stopped == "" || len(b.asked) != 1 {
			t.Errorf("%v: %+v after %d requests", c.ans.Verdict, out, len(b.asked))
		}
	}
}

// failing is a store that cannot note what was accepted.
type failing struct{ *quarantine.Store }

func (failing) Accepted(context.Context, []string) error { return errors.New("no disk") }

// TestACrashNamesWhatMayBeStored: between the request and the removal records are in
// quarantine, and the next start says of which the outcome is not known.
func TestACrashNamesWhatMayBeStored(t *testing.T) {
	b := newBench(t, "a", "b")
	if _, err := b.requeue(t.Context(), failing{b.store}, Requeue{Lines: []string{"1:2"}}); err == nil || !strings.Contains(err.Error(), "02000000") && !strings.Contains(err.Error(), "01000000") {
		t.Errorf("it ends with %v, want the batch", err)
	}
	b.is("left", b.left(), "1:1 a malformed  why", "1:2 b malformed  why")
	if b.accepted != 0 {
		t.Error("it counts as accepted")
	}
	b.store.Close()
	b.open()
	b.is("after the next start", b.left(), "1:1 a malformed  why", "1:2 b malformed  why perhaps 01")
	if !strings.Contains(b.log.String(), "01000000-") {
		t.Errorf("the log tells %s", b.log.String())
	}
}

// TestAnInterruptionEndsBetweenRequests: the one under way is judged, and no other is made. Only a signal
// is an interruption; what else ends the run is told.
func TestAnInterruptionEndsBetweenRequests(t *testing.T) {
	f := func(cause error, code int, why string) {
		b := newBench(t, "a", "other")
		ctx, cancel := context.WithCancelCause(t.Context())
		b.judge = func(*kusto.Ingest) kusto.Answer { cancel(cause); return kusto.Answer{Verdict: kusto.Accepted} }
		out, err := b.requeue(ctx, b.store, Requeue{Lines: b.lines()})
		if err != nil || out.Accepted != 1 || out.Left != 1 || out.Exit != code || out.Stopped != why {
			t.Errorf("%+v: %v", out, err)
		}
		b.is("left", b.left(), "1:2 other malformed  why")
	}
	f(nil, exit.Interrupted, "it was interrupted")
	f(errors.New("the agent stops"), exit.Failed, "the agent stops")
}

// TestManyAreSentInSeveralRequests of a bounded size.
func TestManyAreSentInSeveralRequests(t *testing.T) {
	var all []string
	for range 5 {
		all = append(all, strings.Repeat("x", mostBytes/3))
	}
	b := newBench(t, all...)
	out := b.run(Requeue{})
	if len(b.asked) != 2 || out.Accepted != 5 || len(b.left()) != 0 {
		t.Errorf("%d requests, %+v", len(b.asked), out)
	}
}

// editing counts how often the files of a store are replaced, and is told of it.
type editing struct {
	*quarantine.Store
	edits int
}

func (e *editing) Edit(ctx context.Context, ids []string, change func(*quarantine.Entry) bool) ([]string, error) {
	e.edits++
	return e.Store.Edit(ctx, ids, change)
}

// TestFilesAreReplacedOnce, however many requests there are and however many records are
// refused; and what was accepted is in quarantine no longer as soon as that is known.
func TestFilesAreReplacedOnce(t *testing.T) {
	var all []string
	for i := range 40 {
		text := "bad"
		if i%4 > 0 {
			text = fmt.Sprint("good", i)
		}
		all = append(all, text)
	}
	b := newBench(t, all...)
	gone := 0
	b.judge = func(in *kusto.Ingest) kusto.Answer {
		if n := len(b.left()); n != 40-gone {
			t.Errorf("%d lines are left after %d records were accepted", n, gone)
		}
		if bytes.Contains(in.Body, []byte("bad")) {
			return refusal(kusto.BadData, 400, "Bad")
		}
		gone += bytes.Count(in.Body, []byte("\n"))
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	store := &editing{Store: b.store}
	out, err := b.requeue(t.Context(), store, Requeue{Lines: b.lines()})
	if err != nil || out.Accepted != 30 || out.Refused != 10 || len(b.asked) < 20 {
		t.Errorf("%+v in %d requests: %v", out, len(b.asked), err)
	}
	if store.edits != 1 {
		t.Errorf("the files were replaced %d times", store.edits)
	}
	for _, line := range b.left() {
		if !strings.HasSuffix(line, "bad refused Bad no") {
			t.Errorf("left is %s", line)
		}
	}
}

// TestAKillDuringARequeue: the next start removes what was accepted, names what may be
// stored, and leaves the rest as it was.
func TestAKillDuringARequeue(t *testing.T) {
	b := newBench(t, "a", "other", "avro")
	kill := errors.New("killed")
	n := 0
	b.judge = func(*kusto.Ingest) kusto.Answer {
		if n++; n == 2 {
			panic(kill)
		}
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	func() {
		defer func() {
			if recover() != kill {
				t.Error("it goes on")
			}
		}()
		_, _ = b.requeue(t.Context(), b.store, Requeue{Lines: b.lines()})
	}()
	b.is("beside it", b.left(), "1:2 other malformed  why", "1:3 avro malformed  why")
	b.store.Close()
	b.open()
	b.is("after the next start", b.left(), "1:2 other malformed  why perhaps 02", "1:3 avro malformed  why")
	if strings.Contains(b.log.String(), "01000000-") || !strings.Contains(b.log.String(), "02000000-") {
		t.Errorf("the log tells %s", b.log.String())
	}
}
