package stored

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// Choice is what a person chose to have changed.
type Choice struct {
	IDs     []string
	Text    string // how much it is
	LeftOut int    // records that may be stored already, with Records.Certain
}

// shown is how many rows of what was chosen a person sees.
const shown = 20

// Choose returns the ids of the payloads in the spool folder dir that the filter selects, and
// prints the first of them on w. all says that the user passed --all: then the filter must be
// empty, and otherwise it must not.
func (l *Payloads) Choose(dir string, w io.Writer, all bool) (*Choice, error) {
	l.Out = outputTo(w)
	return l.choose(all, l.Out, l.Total.Words, func(take func(id string, show func() error) error) error {
		return l.Each(dir, func(e *spool.Entry) error {
			if e.Payload == nil {
				return nil
			}
			return take(e.Payload.ID.String(), func() error { return l.Row(e) })
		})
	})
}

// Choose returns the ids of the records in the quarantine folder dir that the filter selects, and
// prints the first of them on w. all says that the user passed --all: then the filter must be
// empty, and otherwise it must not.
func (l *Records) Choose(dir string, w io.Writer, all bool) (*Choice, error) {
	l.Out, l.Words = outputTo(w), w
	c, err := l.choose(all, l.Out, l.Sum, func(take func(id string, show func() error) error) error {
		return l.Each(dir, func(e *quarantine.Entry) error {
			return take(e.ID(), func() error { return l.Row(e) })
		})
	})
	if err == nil && l.LeftOut > 0 {
		c.LeftOut = l.LeftOut
		_, err = fmt.Fprintf(w, "left out: %s that may be stored already; look whether the table has them: if so, remove them with kusto-agent quarantine rm, else send them by their IDs or with --perhaps-stored\n", units.Counted(l.LeftOut, "record"))
	}
	return c, err
}

// choose returns what each passes to take: the id of an entry, and a function that prints it, which is
// called for the first of them. text says how much it is, after each. It flushes out.
func (f *Filter) choose(all bool, out console.Output, text func() string, each func(take func(id string, show func() error) error) error) (*Choice, error) {
	if err := f.meant(all); err != nil {
		return nil, err
	}
	c := &Choice{}
	err := each(func(id string, show func() error) error {
		if c.IDs = append(c.IDs, id); len(c.IDs) > shown {
			return nil
		}
		return show()
	})
	c.Text = text()
	if n := len(c.IDs); n > shown {
		fmt.Fprintf(out, "… and %d more\n", n-shown)
	}
	return c, out.End(err)
}

func outputTo(w io.Writer) console.Output {
	out := console.NewOutput(w)
	out.Writer = bufio.NewWriter(w)
	return out
}

// meant returns a usage error if the filter selects everything and the user did not pass --all, or
// if it selects some and the user did. All of those for one cluster are all of them too.
func (f *Filter) meant(all bool) error {
	rest := *f
	rest.Cluster = ""
	switch {
	case f.IsEmpty() && !all:
		return exit.Usagef("say which, with IDs or with --input, --table, --since and the like, or --all")
	case !rest.IsEmpty() && all:
		return exit.Usagef("--all goes without IDs and without --input, --table, --since and the like; leave out one or the other")
	}
	return nil
}

// Confirm asks the user on w to confirm, unless yes is set. It returns nil if the answer is yes,
// and an error with an exit code if it is no, or if in is not a terminal.
func Confirm(in io.Reader, w io.Writer, question string, yes bool) error {
	if yes {
		return nil
	}
	a := console.NewAsker(in, w)
	if !a.On {
		return exit.Usagef("stdin is not a terminal, so confirmation is not possible: add --yes")
	}
	answer := ""
	if err := a.Value(&answer, question+" yes or no", "no", false, func(s string) error {
		if s = strings.ToLower(s); s != "yes" && s != "y" && s != "no" && s != "n" {
			return fmt.Errorf("%q is neither yes nor no", s)
		}
		return nil
	}); err != nil {
		return exit.With(exit.Interrupted, err)
	}
	if !strings.HasPrefix(strings.ToLower(answer), "y") {
		return exit.With(exit.Failed, fmt.Errorf("nothing was changed"))
	}
	return nil
}
