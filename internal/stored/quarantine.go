package stored

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// Records lists those in quarantine.
type Records struct {
	Filter
	JSON  bool
	Out   console.Output
	Words io.Writer // for people
	// Certain leaves out records that may be stored already (Perhaps), unless their IDs are given.
	Certain bool

	Count    int
	Bytes    int64
	Withheld int // of which no bytes are kept
	Cut      int // of which only the beginning is kept
	LeftOut  int // by Certain
	damaged  int
	headed   bool
	found    map[string]bool
}

// Each calls fn for each selected record in a quarantine folder, oldest first, and counts them. To
// l.Words it reports lines that cannot be read and inputs or tables that do not occur. It fails if
// a requested ID is not there.
func (l *Records) Each(dir string, fn func(e *quarantine.Entry) error) error {
	l.found = make(map[string]bool)
	err := quarantine.List(dir, func(e quarantine.Entry) error {
		switch {
		case e.Torn:
			return l.tell("line %d of %s has no end (%s): a crash cut it short, or it is being written\n", e)
		case e.Err != nil:
			l.damaged++
			return l.tell("line %d of %s is damaged (%s)\n", e)
		case !l.Record(&e):
			return nil
		case l.Certain && e.Perhaps != "" && len(l.IDs) == 0:
			l.LeftOut++
			return nil
		}
		l.Count++
		l.Bytes += int64(len(e.Raw)) + 1
		l.found[e.ID()] = true
		return fn(&e)
	})
	if err != nil {
		return err
	}
	fmt.Fprint(l.Words, l.Strangers())
	return l.missing(l.found, "record in quarantine is", "quarantine ls")
}

// tell says what is the matter with a line.
func (l *Records) tell(format string, e quarantine.Entry) error {
	_, err := fmt.Fprintf(l.Words, format, e.Line, e.Name, telemetry.BytesText(int64(len(e.Raw))))
	return err
}

// List prints the selected records of a quarantine folder, one per line: as a table, or with l.JSON
// as the lines of the file.
func (l *Records) List(dir string) error {
	return l.Each(dir, func(e *quarantine.Entry) error {
		if l.JSON {
			return l.Out.Line(e.Raw)
		}
		return l.Row(e)
	})
}

var recordColumns = []console.Column{
	{Head: "ID", Width: 5}, {Head: "TIME", Width: 20}, {Head: "INPUT", Width: 10}, {Head: "REASON", Width: 9}, {Head: "FILE", Width: 28}, {Head: "OFFSET", Width: -8}, {Head: "LENGTH", Width: -6}, {Head: "CODE", Width: 0}, {Head: "MESSAGE", Width: 0},
}

// Row prints one record of quarantine as a row of a table; before the first row it prints the
// column heads.
func (l *Records) Row(e *quarantine.Entry) error {
	if !l.headed {
		l.headed = true
		if err := console.Row(l.Out, recordColumns, console.Heads(recordColumns)); err != nil {
			return err
		}
	}
	message := e.Message
	if e.Redacted {
		message = "(redacted) " + message
	}
	if e.Perhaps != "" {
		message = "(perhaps stored, batch " + e.Perhaps + ") " + message
	}
	return console.Row(l.Out, recordColumns, []string{
		e.ID(), e.Time.UTC().Format(time.RFC3339), e.File.Input, string(e.Reason), cmp.Or(e.Path, e.Rejected.File.ID.String()),
		strconv.FormatInt(e.Offset, 10), strconv.FormatInt(e.Length, 10), cmp.Or(e.Code, "-"), console.Shortened(message, 100),
	})
}

// Sum is how many there are, for a person.
func (l *Records) Sum() string {
	return units.Counted(l.Count, "record") + ", " + telemetry.BytesText(l.Bytes)
}

// Verdict returns an error with an exit code if Each found damaged lines; a last line that was cut
// short does not count.
func (l *Records) Verdict() error {
	if l.damaged == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("%s cannot be read", units.Counted(l.damaged, "damaged line")))
}

// Show prints the bytes of the record with this ID, or with l.JSON its line in the quarantine file.
// If the bytes are not those of the source file, since they were redacted or cut off, it says so on
// l.Words.
func (l *Records) Show(dir, id string) error {
	e, err := find(dir, id)
	if err != nil {
		return err
	}
	switch {
	case e.Redacted && len(e.Data) == 0:
		fmt.Fprintf(l.Words, "redacted: its content (%s) is withheld, and is at offset %d of its file, %s\n", units.Counted(e.Length, "byte"), e.Offset, telemetry.Printable(e.Path))
	case e.Redacted:
		fmt.Fprintln(l.Words, "redacted: this is the record as it was sent, not as it is in its file")
	case e.Truncated:
		fmt.Fprintf(l.Words, "only the first %d of %d bytes were kept\n", len(e.Data), e.Length)
	}
	if l.JSON {
		return l.Out.Line(e.Raw)
	}
	return l.Out.Record(e.Data)
}

// find returns the record with this ID in the quarantine folder dir. It fails if there is none or
// if it cannot be read.
func find(dir, id string) (found quarantine.Entry, err error) {
	stop := errors.New("found")
	err = quarantine.List(dir, func(e quarantine.Entry) error {
		if e.ID() != id {
			return nil
		}
		found = e
		return stop
	})
	switch {
	case err == nil:
		return found, exit.With(exit.Failed, fmt.Errorf("no record %q in %s; the IDs are those of: kusto-agent quarantine ls", id, telemetry.Printable(dir)))
	case !errors.Is(err, stop):
		return found, err
	case found.Err != nil:
		return found, exit.With(exit.Failed, fmt.Errorf("record %s cannot be read: %w", id, found.Err))
	}
	return found, nil
}

// Export writes the selected records as they were in their log files, each with a line end (Avro
// blocks without), or with l.JSON as JSON lines. They go to the new file to, readable only by the
// user, or to l.Out if to is "". It counts records without bytes in l.Withheld and leaves them out.
// Those with only the beginning of their bytes are counted in l.Cut.
func (l *Records) Export(dir, to string) (err error) {
	out := l.Out
	if to != "" {
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return cannotMake(to, err)
		}
		out = console.Output{Writer: bufio.NewWriterSize(f, 256<<10)}
		defer func() {
			if cerr := errors.Join(out.Flush(), f.Close()); err == nil && cerr != nil {
				err = exit.With(exit.Failed, cerr)
			}
		}()
	}
	return l.Each(dir, func(e *quarantine.Entry) error {
		switch {
		case l.JSON:
			return out.Line(e.Raw)
		case e.Redacted && len(e.Data) == 0:
			l.Withheld++
			return nil
		case e.Truncated:
			l.Cut++
		}
		data := e.Data
		if n := len(data); (n == 0 || data[n-1] != '\n') && e.Route.Format != record.Avro {
			data = append(data, '\n')
		}
		return out.Record(data)
	})
}
