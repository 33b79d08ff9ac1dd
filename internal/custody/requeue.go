package custody

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// Store is the quarantine whose records are sent again.
type Store interface {
	Edit(ctx context.Context, ids []string, change func(*quarantine.Entry) (keep bool)) (done []string, err error)
	Begin(r quarantine.Requeue) error
	Accepted(ctx context.Context, ids []string) error
	End() error
}

// Requeuing sends records in quarantine again. All of its fields are needed.
type Requeuing struct {
	Dir    string // of quarantine, which is listed
	Store  Store
	Ingest func(ctx context.Context, cluster string, in *kusto.Ingest) kusto.Answer
	// Shape makes of a record what its input would send now, in a batch of that id. An
	// error says why it cannot be.
	Shape    func(e *record.Rejected, batch record.BatchID) ([]byte, error)
	Accepted func(e *record.Rejected) // counts a record that has left quarantine
	NewID    func() record.BatchID
	Now      func() time.Time
	Logger   *slog.Logger
}

// How much is sent in one request.
const (
	mostBytes   = 2 << 20 // before shaping
	mostRecords = 2000
	mostOpen    = 16 << 20 // in requests that are being filled
	mostNotes   = 1000
)

// Requeue sends the records with the ids r.Lines again, in the order in which they are in
// quarantine, up to mostRecords in a request. A request that is refused because of its content is
// halved until the bad records are alone; these stay, with the new reason. After a request with an
// unknown outcome its records stay, marked as perhaps stored. That, or an answer about the table,
// the permission or the service, stops the run: the other records stay as they are, and the result
// says why.
//
// When ctx ends no further request is made; the one in flight is awaited. The result has the cause of
// its end, if it has another than context.Canceled, by which a signal stops a command.
//
// Accepted records are noted on disk after each request. The files of quarantine are rewritten
// once, at the end, so the cost is one copy of the files that the records are in.
func (q *Requeuing) Requeue(ctx context.Context, r Requeue) (*Requeued, error) {
	run := requeue{Requeuing: q, ctx: ctx, r: r, out: &Requeued{Batches: []Batch{}, Notes: []Outcome{}}, open: map[kind]*lot{}, changes: map[string]func(*quarantine.Entry) (keep bool){}}
	wanted := make(map[string]bool, len(r.Lines))
	for _, id := range r.Lines {
		wanted[id] = true
	}
	err := quarantine.List(q.Dir, func(e quarantine.Entry) error {
		if !wanted[e.ID()] || e.Err != nil {
			return nil
		}
		return run.take(e)
	})
	for _, k := range slices.SortedFunc(maps.Keys(run.open), kind.compare) {
		if err == nil {
			err = run.send(run.open[k].entries)
		}
	}
	if errors.Is(err, errStopped) {
		err = nil
	}
	err = errors.Join(err, run.settle())
	o := run.out
	o.Left = run.seen - o.Accepted - o.Refused - o.Unknown - o.Withheld
	if err == nil && o.Stopped != "" {
		o.Left = len(r.Lines) - o.Accepted - o.Refused - o.Unknown - o.Withheld
	}
	return o, err
}

// errStopped ends a run early; Requeued says why.
var errStopped = errors.New("stopped")

// requeue is one run.
type requeue struct {
	*Requeuing
	ctx  context.Context
	r    Requeue
	out  *Requeued
	open map[kind]*lot
	held int // bytes in open
	seen int

	changes map[string]func(*quarantine.Entry) (keep bool) // to be made at the end, by ID
	unknown bool                                           // the note of the last request stays until then
}

// settle writes the outcome to the files of quarantine at the end of a run: changed entries get
// their new reason or mark, and accepted ones are removed. The note of a request with an unknown
// outcome stays on disk until that is done.
func (q *requeue) settle() error {
	if len(q.changes) == 0 && q.out.Accepted == 0 {
		return nil
	}
	_, err := q.Store.Edit(context.WithoutCancel(q.ctx), slices.Collect(maps.Keys(q.changes)), func(e *quarantine.Entry) bool { return q.changes[e.ID()](e) })
	if err == nil && q.unknown {
		err = q.Store.End()
	}
	return err
}

// kind is what the records of a request have in common.
type kind struct {
	to     record.Route
	header string // of an Avro file
}

func (k kind) compare(other kind) int {
	return cmp.Or(strings.Compare(k.to.String(), other.to.String()), strings.Compare(k.header, other.header))
}

// lot is a request that is being filled.
type lot struct {
	entries []quarantine.Entry
	bytes   int
}

// take adds the quarantined record e to the open request of its kind: of its route and, for Avro,
// of the header of its file. If the request, or all open ones together, are full then, it is sent.
// A record that cannot be sent is only noted. The error is that of send.
func (q *requeue) take(e quarantine.Entry) error {
	q.seen++
	if why := withheld(&e); why != "" {
		q.out.Withheld++
		q.note(e.ID(), "withheld", why)
		return nil
	}
	k := kind{to: q.route(&e), header: string(e.Header)}
	l := q.open[k]
	if l == nil {
		l = &lot{}
		q.open[k] = l
	}
	e.Raw = nil // List reuses its bytes after this call
	l.entries = append(l.entries, e)
	l.bytes += len(e.Data)
	q.held += len(e.Data)
	if l.bytes < mostBytes && len(l.entries) < mostRecords && q.held < mostOpen {
		return nil
	}
	q.held -= l.bytes
	delete(q.open, k)
	return q.send(l.entries)
}

// withheld returns why a quarantined record cannot be sent again, because quarantine does not have
// all that is needed; "" if it can.
func withheld(e *quarantine.Entry) string {
	switch {
	case e.Redacted && len(e.Data) == 0:
		return "its bytes are withheld, since its input redacts"
	case e.Truncated:
		return "only its beginning was kept"
	case len(e.Data) == 0:
		return "it has no bytes"
	case e.Route.Format != record.Avro || len(e.Header) > 0:
		return ""
	case e.Reason == record.Refused:
		return "it is a block of an Avro file, and the version of the agent that quarantined it did not keep the header of the file"
	default:
		return "it is a block of an Avro file that the agent itself rejected, and such a block is not sent"
	}
}

// route returns where a quarantined record is sent: its own route, with the table and the mapping
// of the request instead if those are given.
func (q *requeue) route(e *quarantine.Entry) record.Route {
	to := e.Route
	if q.r.Table != "" {
		to.Table = q.r.Table
	}
	if q.r.Mapping != nil {
		to.Mapping = *q.r.Mapping
	}
	return to
}

func (q *requeue) note(line, what, why string) {
	if len(q.out.Notes) < mostNotes {
		q.out.Notes = append(q.out.Notes, Outcome{line, what, why})
	}
}

// send makes one request for records of one kind and acts on the answer; the note of it is on disk
// before. Blocks of an Avro file follow the header of their file. If the request is refused because
// of its content, its halves are sent. errStopped says that nothing more must be sent.
func (q *requeue) send(all []quarantine.Entry) error {
	switch cause := context.Cause(q.ctx); {
	case errors.Is(cause, context.Canceled):
		return q.stop(exit.Interrupted, "it was interrupted")
	case cause != nil:
		return q.stop(exit.Failed, cause.Error())
	}
	id := q.NewID()
	var body []byte
	var sent []quarantine.Entry
	for i := range all {
		e := &all[i]
		made, err := q.shaped(e, id)
		if err != nil {
			q.refuse(e, "", err.Error())
			continue
		}
		if len(sent) == 0 {
			body = append(body, e.Header...)
		}
		body = append(body, made...)
		sent = append(sent, *e)
	}
	if len(sent) == 0 {
		return nil
	}
	to := q.route(&sent[0])
	ids := idsOf(sent)
	if err := q.Store.Begin(quarantine.Requeue{Time: q.Now(), Batch: id.String(), Database: to.Database, Table: to.Table, Lines: ids}); err != nil {
		return err
	}
	ans := q.Ingest(context.WithoutCancel(q.ctx), to.Cluster, &kusto.Ingest{
		Database: to.Database, Table: to.Table, Format: string(to.Format), Mapping: to.Mapping, Body: body,
		RequestID: fmt.Sprintf("kusto-agent.ingest;%v;1", id),
	})
	return q.answered(sent, to, id, &ans)
}

// shaped returns the body of the record e for the batch id, ended by a newline: as its input would
// send it now. Quarantine has a redacted record as it was sent, and it is sent like that again. A
// block of an Avro file is returned as it is. e.Data must not be empty.
func (q *requeue) shaped(e *quarantine.Entry, id record.BatchID) (made []byte, err error) {
	if len(e.Header) > 0 {
		return e.Data, nil
	}
	if made = e.Data; !e.Redacted {
		if made, err = q.Shape(&e.Rejected, id); err != nil {
			return nil, err
		}
	}
	if made[len(made)-1] != '\n' {
		made = append(slices.Clip(made), '\n')
	}
	return made, nil
}

// idsOf returns the ids of entries of quarantine, in their order.
func idsOf(all []quarantine.Entry) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID()
	}
	return ids
}

// answered acts on the answer to a request. The note of what is being sent goes only when
// what came of it is durable.
func (q *requeue) answered(sent []quarantine.Entry, to record.Route, id record.BatchID, ans *kusto.Answer) error {
	batch := Batch{ID: id.String(), Database: to.Database, Table: to.Table, Mapping: to.Mapping, Records: len(sent)}
	switch ans.Verdict {
	case kusto.Accepted:
		q.out.Batches = append(q.out.Batches, batch)
		q.Logger.Info("requeued records were accepted and have left quarantine", "batch", batch.ID, "database", to.Database, "table", to.Table, "records", len(sent))
		if err := q.Store.Accepted(context.WithoutCancel(q.ctx), idsOf(sent)); err != nil {
			return fmt.Errorf("batch %s of %s was accepted, and is still in quarantine: %w; do not requeue these before the next start of the agent, which marks them", id, units.Counted(len(sent), "record"), err)
		}
		for i := range sent {
			q.Accepted(&sent[i].Rejected)
		}
		q.out.Accepted += len(sent)
	case kusto.BadData, kusto.TooLarge:
		if err := q.Store.End(); err != nil {
			return err
		}
		if len(sent) == 1 || ans.Err.Empty() { // Empty: the service found no usable record at all
			for i := range sent {
				q.refuse(&sent[i], ans.Err.Code, q.elsewhere(to, &sent[i])+ans.Err.Message)
			}
			return nil
		}
		half := len(sent) / 2
		if err := q.send(sent[:half]); err != nil {
			return err
		}
		return q.send(sent[half:])
	case kusto.Unknown:
		batch.Unknown = true
		q.out.Batches = append(q.out.Batches, batch)
		q.unknown = true
		q.out.Unknown += len(sent)
		for _, line := range idsOf(sent) {
			q.changes[line] = func(e *quarantine.Entry) bool { e.Perhaps = batch.ID; return true }
			q.note(line, "unknown", "no answer that can be trusted came for batch "+batch.ID+": "+ans.Err.Error())
		}
		q.Logger.Warn("outcome of a requeue is unknown: its records may be stored, they stay in quarantine, and requeuing them again may store them twice", "batch", batch.ID, "database", to.Database, "table", to.Table, "records", len(sent), "err", ans.Err,
			"fix", "look for the records in the table: if they are there, remove them with kusto-agent quarantine rm, else send them again with kusto-agent quarantine requeue --perhaps-stored")
		return q.stop(exit.Unreachable, "no answer came that can be trusted: "+ans.Err.Error())
	default:
		if err := q.Store.End(); err != nil {
			return err
		}
		code := exit.Unreachable
		switch {
		case ans.Verdict == kusto.Auth, ans.Err.Refused():
			code = exit.Refused
		case ans.Verdict == kusto.Hold:
			code = exit.Failed
		}
		why := ans.Err.Error()
		if ans.Hint != "" {
			why += "; " + ans.Hint
		}
		return q.stop(code, why)
	}
	return nil
}

// elsewhere returns the beginning of the message for a record that was refused: the table and
// mapping to, if these are not its own, else "".
func (q *requeue) elsewhere(to record.Route, e *quarantine.Entry) string {
	if to == e.Route {
		return ""
	}
	text := "requeued to " + to.Table
	if to.Mapping != "" {
		text += " by " + to.Mapping
	}
	return text + ": "
}

// refuse counts a record as refused again, and has settle store the new message with it in
// quarantine. code is the error code of the service, or "" if the agent itself could not shape the
// record; then the old reason stays.
func (q *requeue) refuse(e *quarantine.Entry, code, message string) {
	q.out.Refused++
	why := message
	if code != "" {
		why = code + ": " + why
	}
	q.note(e.ID(), "refused", why)
	q.changes[e.ID()] = func(x *quarantine.Entry) bool {
		x.Message = message
		if x.Code = code; code != "" {
			x.Reason = record.Refused
		}
		return true
	}
}

func (q *requeue) stop(code int, why string) error {
	q.out.Stopped, q.out.Exit = why, code
	return errStopped
}
