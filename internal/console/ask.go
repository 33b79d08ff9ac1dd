package console

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// Asker asks a person.
type Asker struct {
	In  *bufio.Reader
	Out io.Writer
	On  bool // there is a person
}

// NewAsker asks on out, if in is a terminal that can answer.
func NewAsker(in io.Reader, out io.Writer) Asker {
	return Asker{In: bufio.NewReader(in), Out: out, On: IsTerminal(in)}
}

// Value sets *to to the answer to a question, if *to is empty. suggested is the answer to an empty
// line, and is used without asking if there is no terminal. It asks again until check returns nil.
// If the value is optional, *to may stay empty: by an empty answer, or by "none" if nothing is
// suggested. Otherwise *to stays empty only if nothing is suggested and there is nobody to ask. The
// error is that of check for a value that was given or suggested, or of reading the answer.
func (a *Asker) Value(to *string, question, suggested string, optional bool, check func(string) error) error {
	for *to == "" {
		answer := suggested
		if a.On {
			hint := ""
			switch {
			case suggested != "":
				hint = " [" + suggested + "]"
			case optional:
				hint = " [none]"
			}
			fmt.Fprintf(a.Out, "%s%s: ", question, hint)
			line, err := a.In.ReadString('\n')
			if err != nil {
				fmt.Fprintln(a.Out) // ends the line of the question
				return fmt.Errorf("no answer: %w", err)
			}
			answer = cmp.Or(strings.TrimSpace(line), suggested)
		}
		switch {
		case answer == "" && (optional || !a.On), a.On && optional && suggested == "" && answer == "none":
			return nil
		case answer == "":
		case !a.On:
			*to = answer
		default:
			if err := check(answer); err != nil {
				fmt.Fprintln(a.Out, err)
				continue
			}
			*to = answer
		}
	}
	return check(*to)
}

// IsYes reports whether an answer is yes.
func IsYes(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
