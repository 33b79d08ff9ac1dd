package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

func quarantineCommand() *cobra.Command {
	return group("quarantine", "Show the records that were refused, and why", quarantineListCommand(), quarantineShowCommand())
}

func quarantineFolder(c *config.Config) string { return filepath.Join(c.StateDir, "quarantine") }

func quarantineListCommand() *cobra.Command {
	var l quarantineList
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the records in quarantine, oldest first",
		Long: "List the records in quarantine, oldest first, whether the agent runs or not.\n" +
			"The exit code is 1 if a line in quarantine is damaged.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, reason := range l.reasons {
				if !slices.Contains(reasons, record.Reason(reason)) {
					return fmt.Errorf("--reason %q: want one of %v", reason, reasons)
				}
			}
			dir, err := l.folder(quarantineFolder)
			if err != nil {
				return err
			}
			l.out, l.words = console.NewOutput(cmd.OutOrStdout()), cmd.ErrOrStderr()
			err = l.out.End(quarantine.List(dir, l.line))
			if err == nil {
				fmt.Fprintf(l.words, "%s, %s in %s\n", units.Counted(l.records, "record"), telemetry.BytesText(l.bytes), telemetry.Printable(dir))
				err = l.verdict()
			}
			return err
		},
	}
	l.flags(cmd, "quarantine")
	cmd.Flags().BoolVar(&l.json, "json", false, "print the lines that lie there, as JSON that no terminal is steered by")
	cmd.Flags().StringArrayVar(&l.inputs, "input", nil, "only records of this `input`; may be given more than once")
	cmd.Flags().StringArrayVar(&l.reasons, "reason", nil, "only records refused for this `reason`: too_long, malformed, refused or grown; may be given more than once")
	return cmd
}

var reasons = []record.Reason{record.TooLong, record.Malformed, record.Refused, record.Grown}

// quarantineList is one run of quarantine ls.
type quarantineList struct {
	stored
	inputs, reasons []string
	out             console.Output

	words io.Writer // for people

	headed           bool
	records, damaged int
	bytes            int64
}

var quarantineColumns = []console.Column{
	{Head: "ID", Width: 5}, {Head: "TIME", Width: 20}, {Head: "INPUT", Width: 10}, {Head: "REASON", Width: 9}, {Head: "FILE", Width: 28}, {Head: "OFFSET", Width: -8}, {Head: "LENGTH", Width: -6}, {Head: "CODE", Width: 0}, {Head: "MESSAGE", Width: 0},
}

// line takes one line of quarantine.
func (l *quarantineList) line(e quarantine.Entry) error {
	switch {
	case e.Torn:
		return l.tell("line %d of %s has no end (%s): a crash cut it short, or it is being written\n", e)
	case e.Err != nil:
		l.damaged++
		return l.tell("line %d of %s is damaged (%s)\n", e)
	case !chosen(l.inputs, e.File.Input), !chosen(l.reasons, string(e.Reason)):
		return nil
	}
	l.records++
	l.bytes += int64(len(e.Raw)) + 1
	if l.json {
		return l.out.Line(e.Raw)
	}
	if !l.headed {
		l.headed = true
		if err := console.Row(l.out, quarantineColumns, console.Heads(quarantineColumns)); err != nil {
			return err
		}
	}
	file := e.Path
	if file == "" {
		file = e.Rejected.File.ID.String()
	}
	message := e.Message
	if e.Redacted {
		message = "(redacted) " + message
	}
	code := e.Code
	if code == "" {
		code = "-"
	}
	return console.Row(l.out, quarantineColumns, []string{
		lineID(e), e.Time.UTC().Format(time.RFC3339), e.File.Input, string(e.Reason), file,
		strconv.FormatInt(e.Offset, 10), strconv.FormatInt(e.Length, 10), code, console.Shortened(message, 100),
	})
}

// tell says what is the matter with a line.
func (l *quarantineList) tell(format string, e quarantine.Entry) error {
	_, err := fmt.Fprintf(l.words, format, e.Line, e.Name, telemetry.BytesText(int64(len(e.Raw))))
	return err
}

func chosen(among []string, one string) bool { return len(among) == 0 || slices.Contains(among, one) }

func (l *quarantineList) verdict() error {
	if l.damaged == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("%s cannot be read", units.Counted(l.damaged, "damaged line")))
}

// lineID names a line of quarantine for good, since none is ever changed: the
// number of its file without leading zeros, and its number in it.
func lineID(e quarantine.Entry) string {
	name := strings.TrimLeft(strings.TrimSuffix(e.Name, filepath.Ext(e.Name)), "0")
	return name + ":" + strconv.Itoa(e.Line)
}

func quarantineShowCommand() *cobra.Command {
	var s stored
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the bytes of a record in quarantine, as they were in its file",
		Long: "Print the bytes of a record in quarantine, as they were in its file; ID is from quarantine ls.\n" +
			"Of an input that redacts they are those that were sent, or none.\n" +
			"On a terminal, bytes that could steer it are quoted.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := s.folder(quarantineFolder)
			if err != nil {
				return err
			}
			out := console.NewOutput(cmd.OutOrStdout())
			e, err := findLine(dir, args[0])
			if err != nil {
				return err
			}
			switch {
			case e.Redacted && len(e.Data) == 0:
				fmt.Fprintf(cmd.ErrOrStderr(), "redacted: its %d bytes are withheld, and are at offset %d of its file, %s\n", e.Length, e.Offset, telemetry.Printable(e.Path))
			case e.Redacted:
				fmt.Fprintln(cmd.ErrOrStderr(), "redacted: this is the record as it was sent, not as it is in its file")
			case e.Truncated:
				fmt.Fprintf(cmd.ErrOrStderr(), "only the first %d of %d bytes were kept\n", len(e.Data), e.Length)
			}
			if s.json {
				return out.End(out.Line(e.Raw))
			}
			return out.End(out.Record(e.Data))
		},
	}
	s.flags(cmd, "quarantine")
	cmd.Flags().BoolVar(&s.json, "json", false, "print the line as it lies there, with the reason and the place of the record")
	return cmd
}

func findLine(dir, id string) (found quarantine.Entry, err error) {
	stop := errors.New("found")
	err = quarantine.List(dir, func(e quarantine.Entry) error {
		if lineID(e) != id {
			return nil
		}
		found = e
		return stop
	})
	switch {
	case err == nil:
		return found, exit.With(exit.Failed, fmt.Errorf("no record %q in %s; the IDs are those of: kusto-agent quarantine ls", id, telemetry.Printable(dir)))
	case !errors.Is(err, stop):
		return found, exit.Reading(err)
	case found.Err != nil:
		return found, exit.With(exit.Failed, fmt.Errorf("record %s cannot be read: %w", id, found.Err))
	}
	return found, nil
}
