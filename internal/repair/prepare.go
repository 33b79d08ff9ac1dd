package repair

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// Lock makes sure that only one repair of a state_dir runs at a time, until the result is closed:
// two would send the same records. It does not lock out the agent, and writes nothing. state is the
// folder. The error has an exit code for the command, also if another repair is running.
func Lock(state string) (io.Closer, error) {
	lock, err := durable.OS.Lock(filepath.Join(state, "journal"))
	switch {
	case errors.Is(err, os.ErrNotExist): // nothing was ever sent
		return io.NopCloser(nil), nil
	case errors.Is(err, durable.ErrLocked):
		return nil, exit.With(exit.Failed, fmt.Errorf("another audit --repair of %q is running; wait for its end", state))
	case err != nil:
		return nil, exit.With(exit.Failed, fmt.Errorf("lock the journal in state_dir: %w", err))
	}
	return lock, nil
}

// Prepare makes the plan that fills holes (ranges of files of which records are missing in the
// table), and returns the source that the plan reads records from. Records that were accepted later
// than before are not sent, since the table may not show them yet. The error has an exit code for
// the command.
func Prepare(cfg *config.Config, holes []audit.Hole, before time.Time) (*Plan, Source, error) {
	past, err := pipeline.Past(cfg) // what the journal knows of the files
	if err != nil {
		return nil, nil, exit.Reading(err)
	}
	source, err := pipeline.NewAgain(cfg, past)
	if err != nil {
		return nil, nil, exit.With(exit.Failed, err)
	}
	batches, err := batches(filepath.Join(cfg.StateDir, "journal"), holes)
	if err != nil {
		return nil, nil, exit.Reading(err)
	}
	return Make(Options{Holes: holes, Batches: batches, Source: source, Before: before}), source, nil
}

// batches returns the batches that holes belong to, by id, as the journal in the folder dir has
// them; nil for those that it does not remember any more.
func batches(dir string, holes []audit.Hole) (map[record.BatchID]*record.Payload, error) {
	found := map[record.BatchID]*record.Payload{}
	for i := range holes {
		found[holes[i].Batch] = nil
	}
	// The journal uses the memory of an entry again.
	enter := func(p *record.Payload) {
		if _, wanted := found[p.ID]; wanted {
			own := *p
			own.Cover, own.Pieces = slices.Clone(p.Cover), slices.Clone(p.Pieces)
			found[p.ID] = &own
		}
	}
	err := journal.History(dir, func(e *journal.Entry) error {
		switch e.Kind {
		case journal.Begin:
			enter(e.Payload)
		case journal.Split:
			for i := range e.Children {
				enter(&e.Children[i].Payload)
			}
		}
		return nil
	})
	return found, err
}

// Agreed asks a person whether to carry out a plan, and returns nil for yes. Without a terminal to
// ask on, and after any other answer, the error has an exit code for the command.
func Agreed(p *Plan, ask *console.Asker) error {
	if !ask.On {
		return exit.With(exit.Usage, errors.New("this sends records again, and nothing was sent: there is no terminal to ask on; run it with --yes"))
	}
	fmt.Fprintf(ask.Out, "Send %s again? [y/N] ", units.Counted(p.Records(), "record"))
	if answer, _ := ask.In.ReadString('\n'); !console.IsYes(answer) { // none is no
		return exit.With(exit.Failed, errors.New("nothing was sent"))
	}
	return nil
}
