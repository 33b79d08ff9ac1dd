package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// tapCommand returns the command tap, with its help and its flags.
func tapCommand() *cobra.Command {
	var t tap
	cmd := &cobra.Command{
		Use:   "tap INPUT…",
		Short: "Print records as they pass, until Ctrl-C",
		Long: "Print the records of inputs as the running agent hands them on to be sent, until Ctrl-C or until it stops.\n" +
			"Delivery does not wait for it: what is not taken in time is not shown, counted, and delivered all the same.\n" +
			"It asks the agent over the socket in its state_dir, as root or as the agent's user.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("want one INPUT or more, and got none; kusto-agent status shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd)
			defer stop()
			t.inputs, t.out, t.words = args, console.NewOutput(cmd.OutOrStdout()), cmd.ErrOrStderr()
			dir, err := t.folder()
			if err != nil {
				return err
			}
			return t.out.End(t.run(ctx, dir))
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&t.json, "json", false, "print one JSON document per record, with its file and offset")
	countVar(cmd.Flags(), &t.limit, "limit", 0, "end after this many records; 0: do not")
	return cmd
}

// tap is one run of the command.
type tap struct {
	asked
	inputs []string
	json   bool
	limit  int
	out    console.Output
	words  io.Writer // for people

	shown   int
	dropped uint64 // as the agent told last
}

// run prints the records of the inputs that the agent with the state folder dir hands on, and at
// the end how many were shown. It ends with --limit records, when ctx ends, which is no error, or
// when the agent ends.
func (t *tap) run(ctx context.Context, dir string) error {
	r, err := telemetry.OpenTap(ctx, dir, t.inputs)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return askError(err, dir)
	}
	defer r.Close()
	err = t.copy(r)
	if ctx.Err() != nil {
		err = nil
	}
	text := units.Counted(t.shown, "record") + " shown"
	if t.dropped > 0 {
		text += fmt.Sprintf(", %d not shown, since they were not taken in time; they are delivered like the others", t.dropped)
	}
	err = cmp.Or(err, t.out.Flush())
	fmt.Fprintln(t.words, text)
	return err
}

// copy prints the records of the tap until the agent says that it stops, or until --limit are
// printed. It is an error if the agent goes away without saying so. Output is flushed when no more
// lines are at hand.
func (t *tap) copy(r *telemetry.TapReader) error {
	for {
		line, raw, err := r.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
			return exit.With(exit.Failed, errors.New("the agent ended without closing the tap: it was killed, or crashed"))
		case err != nil:
			return err
		case line.Input == "":
			if done, err := t.note(line); done {
				return err
			}
		default:
			if err := t.print(line, raw); err != nil {
				return err
			}
			if t.shown++; t.shown == t.limit {
				return nil
			}
		}
		if !r.Pending() {
			if err := t.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// note prints what a line from the agent means that has no record: the begin of the tap, or its
// end. It also keeps how many records were dropped. done says that the command ends, with err.
func (t *tap) note(line *telemetry.TapLine) (done bool, err error) {
	t.dropped = max(t.dropped, line.Dropped)
	switch {
	case line.Ended:
		fmt.Fprintln(t.words, "the agent stops")
		return true, nil
	case len(line.Blocks) > 0 && !t.json:
		return true, exit.With(exit.Usage, fmt.Errorf("input %s is Avro: its records lie in blocks that are not taken apart; --json shows where those are",
			strings.Join(line.Blocks, ", ")))
	case line.Dropped == 0:
		fmt.Fprintf(t.words, "tap on %s, Ctrl-C ends it\n", strings.Join(t.inputs, ", "))
	}
	return false, nil
}

// print prints one record: its bytes and a line feed, or with --json raw, its line as the agent
// sent it.
func (t *tap) print(line *telemetry.TapLine, raw []byte) error {
	if t.json {
		return t.out.Line(raw)
	}
	return t.out.Record(append(line.Data, '\n'))
}
