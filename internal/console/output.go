package console

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// Output is where a command prints, in large pieces: Flush gives out what is left. A
// terminal gets nothing that could steer it.
type Output struct {
	*bufio.Writer
	Terminal bool
}

// NewOutput prints to w.
func NewOutput(w io.Writer) Output {
	return Output{bufio.NewWriter(w), IsTerminal(w)}
}

// IsTerminal reports whether a stream, such as os.Stdin, is a terminal.
func IsTerminal(stream any) bool {
	f, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}

// JSON prints v as one line of JSON, with unprintable characters escaped.
func (o Output) JSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.Line(b)
}

// Line prints a line of JSON, in which nothing can steer a terminal.
func (o Output) Line(b []byte) error {
	_, err := o.Write(bytes.ReplaceAll(telemetry.EscapeJSON(b), []byte("\n"), []byte(`\u000a`)))
	return errors.Join(err, o.WriteByte('\n'))
}

// Record prints data as it is. On a terminal each line that has control characters is printed
// quoted, and ends with a line feed.
func (o Output) Record(data []byte) error {
	if !o.Terminal {
		_, err := o.Write(data)
		return err
	}
	for line := range strings.Lines(string(data)) {
		if _, err := fmt.Fprintln(o, telemetry.Printable(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}

// End flushes the output and returns the error with which the command ends: err, or that of the
// flush if err is nil, with an exit code. If the reader of the output went away, as with "| head",
// that is no error.
func (o Output) End(err error) error {
	err = cmp.Or(err, o.Flush())
	var ended *exit.Error
	if errors.Is(err, syscall.EPIPE) && !errors.As(err, &ended) {
		return nil
	}
	return exit.Default(exit.Failed, err)
}

// Say tells a person something on stderr. Nothing in it can steer a terminal.
func Say(format string, args ...any) {
	fmt.Fprintln(os.Stderr, telemetry.Printable(fmt.Sprintf(format, args...)))
}

// Column is a head and the least width of what is below it; a negative width
// is that of figures, which stand to the right. Rows are printed as they come,
// so a long word moves those behind it.
type Column struct {
	Head  string
	Width int
}

// Heads returns the headings of the columns, as the cells of a row.
func Heads(columns []Column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Head
	}
	return all
}

// Row prints one line of a table: the cells, one for each column, padded to the width of the
// column. A column with a negative width is aligned to the right. Cells with control characters are
// quoted.
func Row(w io.Writer, columns []Column, cells []string) error {
	var b strings.Builder
	for i, c := range columns {
		text := telemetry.Printable(cells[i])
		pad := strings.Repeat(" ", max(0, max(c.Width, -c.Width)-utf8.RuneCountInString(text)))
		if c.Width < 0 {
			b.WriteString(pad + text + "  ")
		} else {
			b.WriteString(text + pad + "  ")
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	return err
}

// Shortened returns s, or if it has more than most characters, its beginning with "…" at the end,
// most characters in all.
func Shortened(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Color reports whether the output is a terminal, and NO_COLOR is not set.
func (o Output) Color() bool { return o.Terminal && os.Getenv("NO_COLOR") == "" }

// Paint returns text with the ANSI escape sequences of a style, such as "31" for red. If the output
// has no colours, it returns text as it is.
func (o Output) Paint(style, text string) string {
	if !o.Color() {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// Wrapped breaks text between words into lines of at most width characters. A longer word is a line
// of its own. An empty text is one empty line.
func Wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
