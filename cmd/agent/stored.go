package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kusto-agent/config"
	"kusto-agent/telemetry"
)

// What the commands have in common that read what an agent keeps on disk. They
// take no lock and ask nobody, so they tell the same whether it runs or not.

// stored says which folder to read.
type stored struct {
	config, dir string
	json        bool
}

func (s *stored) flags(cmd *cobra.Command, what string) {
	f := cmd.Flags()
	f.StringVar(&s.config, "config", config.DefaultPath, "the configuration `file` that says where the "+what+" is")
	f.StringVar(&s.dir, "dir", "", "read this `folder`, without a configuration")
}

// folder is where to read; where gives it from a configuration. A spool or a
// quarantine that was never needed may be missing, what it should be in may not.
func (s *stored) folder(where func(*config.Config) string) (string, error) {
	must := s.dir
	if s.dir == "" {
		cfg, err := loadConfig(s.config)
		if err != nil {
			return "", &exitError{exitConfig, fmt.Errorf("%w\nwithout a configuration: name the folder with --dir", err)}
		}
		s.dir, must = where(cfg), cfg.StateDir
	}
	st, err := os.Stat(must)
	switch {
	case err != nil:
		return "", readError(err)
	case !st.IsDir():
		return "", &exitError{exitFailed, fmt.Errorf("%q is not a folder", must)}
	}
	return s.dir, nil
}

// readError is an error of reading, with what a person can do about it.
func readError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; is it another state_dir, or is $STATE_DIRECTORY set for the agent? Name the folder with --dir", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; run it as root or as the agent's user", err)
	}
	return &exitError{exitFailed, err}
}

// output is stdout in large pieces. Whoever reads it may leave early; a
// terminal gets nothing that could steer it.
type output struct {
	*bufio.Writer
	terminal bool
}

func newOutput(cmd *cobra.Command) output {
	w := cmd.OutOrStdout()
	f, ok := w.(*os.File)
	return output{bufio.NewWriter(w), ok && term.IsTerminal(int(f.Fd()))}
}

// end gives what is left to the reader, and returns how the command ended.
func (o output) end(err error) error {
	if ferr := o.Flush(); err == nil {
		err = ferr
	}
	var exit *exitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.Is(err, syscall.EPIPE): // as with head: it has what it wanted
		return nil
	}
	return readError(err)
}

// json prints a value as one line.
func (o output) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.line(b)
}

// line prints a line of JSON, in which nothing can steer a terminal.
func (o output) line(b []byte) error {
	_, err := o.Write(bytes.ReplaceAll(telemetry.EscapeJSON(b), []byte("\n"), []byte(`\u000a`)))
	return errors.Join(err, o.WriteByte('\n'))
}

// record prints bytes as they are; on a terminal, lines that can steer it are
// quoted.
func (o output) record(data []byte) error {
	if !o.terminal {
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

// column is a head and the least width of what is below it; a negative width
// is that of figures, which stand to the right. Rows are printed as they come,
// so a long word moves those behind it.
type column struct {
	head  string
	width int
}

func heads(columns []column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.head
	}
	return all
}

// row prints one line. Nothing in it can steer a terminal.
func row(w io.Writer, columns []column, cells []string) error {
	var b strings.Builder
	for i, c := range columns {
		text := telemetry.Printable(cells[i])
		pad := strings.Repeat(" ", max(0, max(c.width, -c.width)-utf8.RuneCountInString(text)))
		if c.width < 0 {
			b.WriteString(pad + text + "  ")
		} else {
			b.WriteString(text + pad + "  ")
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	return err
}

// shortened is the beginning of a text that is too long for a line.
func shortened(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: sayWhich}
	cmd.AddCommand(below...)
	return cmd
}

// sayWhich is the run of a command that is only a group of others.
func sayWhich(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%s: say which: %s", cmd.CommandPath(), strings.Join(names, ", "))
}
