// Package custody has an agent change what it keeps, as a person asked: nothing is given
// up that was not named, and a record that is sent again leaves quarantine only when the
// service has accepted it.
//
// A Keeper is an agent that runs, reached over its control socket, or the folders of one
// that does not, opened as the agent itself opens them.
package custody

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// Keeper changes what an agent keeps.
type Keeper interface {
	// RemoveSpooled gives up payloads that wait in the spool.
	RemoveSpooled(ctx context.Context, r RemoveSpooled) (*Removed, error)
	// Replay has payloads that wait in the spool for one cluster sent to another.
	Replay(ctx context.Context, r Replay) (*Replayed, error)
	// RemoveLines gives up records in quarantine.
	RemoveLines(ctx context.Context, r RemoveLines) (*Removed, error)
	// Requeue sends records in quarantine again.
	Requeue(ctx context.Context, r Requeue) (*Requeued, error)
}

// RemoveSpooled names payloads by their batch ids.
type RemoveSpooled struct {
	Batches []string `json:"batches"`
}

// RemoveLines names records in quarantine by their IDs.
type RemoveLines struct {
	Lines []string `json:"lines"`
}

// Removed is what was given up.
type Removed struct {
	Payloads int      `json:"payloads,omitempty"`
	Records  int      `json:"records"`
	Busy     []string `json:"busy,omitempty"` // batches that the agent has in hand, which it keeps
}

// Replay names payloads by their batch ids, and the cluster that they wait for.
type Replay struct {
	From    string   `json:"from"` // URL
	To      string   `json:"to"`   // its name in the configuration
	Batches []string `json:"batches"`
}

// Replayed is what was moved.
type Replayed struct {
	Payloads int  `json:"payloads"`
	Later    bool `json:"later"` // the agent sends them after its next start or reload, and not now
}

// Requeue names records in quarantine by their IDs.
type Requeue struct {
	Lines   []string `json:"lines"`
	Table   string   `json:"table,omitempty"`   // another one of the same database; empty: the one they were for
	Mapping *string  `json:"mapping,omitempty"` // another one; nil: the one they were for
}

// Requeued is what became of records that were sent again.
type Requeued struct {
	Accepted int       `json:"accepted"`
	Refused  int       `json:"refused"`
	Unknown  int       `json:"unknown"`  // perhaps stored
	Withheld int       `json:"withheld"` // not sent, since what is kept of them is not what they were
	Left     int       `json:"left"`     // not sent, since it was stopped before
	Batches  []Batch   `json:"batches"`
	Notes    []Outcome `json:"notes"` // of those that were not accepted, a thousand at most

	Stopped string `json:"stopped,omitempty"` // why not all were sent; empty: they were
	Exit    int    `json:"exit,omitempty"`    // the exit code of that
}

// Batch is a request that was accepted, or of which nobody knows.
type Batch struct {
	ID       string `json:"batch"`
	Database string `json:"database"`
	Table    string `json:"table"`
	Mapping  string `json:"mapping"`
	Records  int    `json:"records"`
	Unknown  bool   `json:"unknown"`
}

// Outcome is what became of one record that was not accepted.
type Outcome struct {
	Line string `json:"line"`
	What string `json:"what"` // refused, unknown or withheld
	Why  string `json:"why"`
}

// Remote is an agent that runs, by its state folder.
type Remote struct{ Dir string }

// The names of what a Remote asks for.
const (
	DoRemoveSpooled = "spool/rm"
	DoReplay        = "spool/replay"
	DoRemoveLines   = "quarantine/rm"
	DoRequeue       = "quarantine/requeue"
)

// RemoveSpooled implements Keeper.
func (r Remote) RemoveSpooled(ctx context.Context, in RemoveSpooled) (*Removed, error) {
	return do[Removed](ctx, r.Dir, DoRemoveSpooled, in)
}

// Replay implements Keeper.
func (r Remote) Replay(ctx context.Context, in Replay) (*Replayed, error) {
	return do[Replayed](ctx, r.Dir, DoReplay, in)
}

// RemoveLines implements Keeper.
func (r Remote) RemoveLines(ctx context.Context, in RemoveLines) (*Removed, error) {
	return do[Removed](ctx, r.Dir, DoRemoveLines, in)
}

// Requeue implements Keeper.
func (r Remote) Requeue(ctx context.Context, in Requeue) (*Requeued, error) {
	return do[Requeued](ctx, r.Dir, DoRequeue, in)
}

// do has the running agent whose state folder is dir carry out the request what (one of the Do…
// constants) with in, over its control socket, and returns its answer.
func do[Out any](ctx context.Context, dir, what string, in any) (*Out, error) {
	out := new(Out)
	if err := telemetry.Do(ctx, dir, what, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Serve returns the requests that the control socket of the agent k answers for a Remote in another
// process, by their names.
func Serve(k Keeper) map[string]telemetry.Doing {
	return map[string]telemetry.Doing{
		DoRemoveSpooled: telemetry.Do1(k.RemoveSpooled),
		DoReplay:        telemetry.Do1(k.Replay),
		DoRemoveLines:   telemetry.Do1(k.RemoveLines),
		DoRequeue:       telemetry.Do1(k.Requeue),
	}
}

// Batches parses batch ids, which are UUIDs. It fails at the first that is not valid.
func Batches(all []string) ([]record.BatchID, error) {
	ids := make([]record.BatchID, len(all))
	for i, s := range all {
		id, err := uuid.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("batch %q: %w", s, err)
		}
		ids[i] = record.BatchID(id)
	}
	return ids, nil
}

// Words returns as lines for a person what became of the requeued records: how many were accepted,
// each batch that is or may be stored, how many stay in quarantine and why, and the first ten
// records of those.
func (r *Requeued) Words() (all []string) {
	all = append(all, units.Counted(r.Accepted, "record")+" accepted")
	for _, b := range r.Batches {
		to := b.Database + "." + b.Table
		if b.Mapping != "" {
			to += " by " + b.Mapping
		}
		what := ""
		if b.Unknown {
			what = "perhaps stored: "
		}
		all = append(all, fmt.Sprintf("%s%s to %s as batch %s", what, units.Counted(b.Records, "record"), to, b.ID))
	}
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.Refused, "refused, still in quarantine with the new reason"}, {r.Unknown, "perhaps stored, still in quarantine and marked"},
		{r.Withheld, "not sent, still in quarantine"}, {r.Left, "not sent, still in quarantine as before"},
	} {
		if c.n > 0 {
			all = append(all, units.Counted(c.n, "record")+" "+c.what)
		}
	}
	for i, n := range r.Notes {
		if i == 10 {
			return append(all, fmt.Sprintf("… and %d more; see quarantine ls", len(r.Notes)-i))
		}
		all = append(all, n.Line+" "+n.What+": "+n.Why)
	}
	return all
}
