package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// asker asks a person.
type asker struct {
	in  *bufio.Reader
	out io.Writer
	on  bool // there is a person
}

// newAsker asks on stderr, if a terminal can answer.
func newAsker(cmd *cobra.Command) asker {
	in, isFile := cmd.InOrStdin().(*os.File)
	return asker{in: bufio.NewReader(cmd.InOrStdin()), out: cmd.ErrOrStderr(), on: isFile && term.IsTerminal(int(in.Fd()))}
}

// value fills *to, if it is empty, with an answer, or with what is suggested.
func (a *asker) value(to *string, question, suggested string, optional bool, check func(string) error) error {
	for *to == "" {
		answer := suggested
		if a.on {
			hint := ""
			switch {
			case suggested != "":
				hint = " [" + suggested + "]"
			case optional:
				hint = " [none]"
			}
			fmt.Fprintf(a.out, "%s%s: ", question, hint)
			line, err := a.in.ReadString('\n')
			if err != nil {
				fmt.Fprintln(a.out) // which the answer would have ended
				return fmt.Errorf("no answer: %w", err)
			}
			answer = cmp.Or(strings.TrimSpace(line), suggested)
		}
		switch {
		case answer == "" && (optional || !a.on), a.on && optional && suggested == "" && answer == "none":
			return nil
		case answer == "":
		case !a.on:
			*to = answer
		default:
			if err := check(answer); err != nil {
				fmt.Fprintln(a.out, err)
				continue
			}
			*to = answer
		}
	}
	return check(*to)
}
