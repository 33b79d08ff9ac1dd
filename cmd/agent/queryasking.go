package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/script"
	"kusto-agent/kusto"
)

// asking is one run of query or mgmt.
type asking struct {
	q       kusto.Query // what all statements have in common
	target  target
	paper   paper
	file    string
	options []string
	params  []string
	v1      bool

	in         io.Reader
	out, words io.Writer // for results and for people

	to   *endpoint.Connection
	sent int // requests so far
}

// run does what the flags and the arguments ask for. Nothing is sent before all of
// them were looked at.
func (a *asking) run(ctx context.Context, args []string) error {
	if err := a.read(); err != nil {
		return err
	}
	all, err := a.statements(args)
	if err != nil {
		return err
	}
	return a.runAll(ctx, all)
}

// read takes the flags apart.
func (a *asking) read() error {
	if err := a.paper.check(a.out, a.words); err != nil {
		return err
	}
	for _, one := range []struct{ flag, value string }{{"--request-id", a.q.RequestID}, {"--app", a.q.App}, {"--user", a.q.User}} {
		least := ' ' // headers may hold spaces, ids may not
		if one.flag == "--request-id" {
			least = '!'
		}
		if strings.ContainsFunc(one.value, func(r rune) bool { return r < least || r > '~' }) {
			return exit.Usagef("%s %q: want ASCII letters, digits and signs", one.flag, one.value)
		}
	}
	if a.q.Timeout < 0 || a.q.Timeout > kusto.MaxTimeout {
		return exit.Usagef("--timeout %v: want at most %v, which is what the service allows", a.q.Timeout, kusto.MaxTimeout)
	}
	for _, p := range a.params {
		parameter, err := kusto.ParseParameter(p)
		if err != nil {
			return exit.Usagef("--param %w", err)
		}
		a.q.Parameters = append(a.q.Parameters, parameter)
	}
	a.q.Options = make(map[string]any)
	for _, o := range a.options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return exit.Usagef("--option %q: want name=value", o)
		}
		a.q.Options[name] = optionValue(value)
	}
	return nil
}

// optionValue is what JSON makes of a text, else the text.
func optionValue(text string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) == nil && !dec.More() {
		return v
	}
	return text
}

// statements are what is to be run, checked before any is; nil: a person is to type
// them. An argument is one statement, as it is.
func (a *asking) statements(args []string) ([]script.Statement, error) {
	var all []script.Statement
	switch in, isFile := a.in.(*os.File); {
	case len(args) > 0 && a.file != "":
		return nil, exit.Usagef("there is a text and a file; want one of them")
	case len(args) > 0 && args[0] != "-":
		if all = script.Split(args[0]); len(all) > 0 {
			all = []script.Statement{{Text: args[0], Line: 1}}
		}
	case len(args) == 0 && a.file == "" && isFile && term.IsTerminal(int(in.Fd())):
		if out, ok := a.out.(*os.File); !ok || !term.IsTerminal(int(out.Fd())) || a.paper.output != "" {
			return nil, exit.Usagef("there is no text: give it as an argument, in a file with -f, or by stdin")
		}
		return nil, nil
	default:
		text, err := a.text()
		if err != nil {
			return nil, err
		}
		all = script.Split(text)
	}
	if len(all) == 0 {
		return nil, exit.Usagef("the text is empty")
	}
	if len(all) > 1 && a.paper.isPicture() {
		return nil, exit.Usagef("a picture is of one query, and the text has %d", len(all))
	}
	for _, s := range all {
		switch isCommand := kusto.IsCommand(s.Text); {
		case isCommand && a.q.Call != kusto.Mgmt:
			return nil, exit.Usagef("%sa text that begins with a dot is a management command; use: kusto-agent mgmt", at(s, all))
		case !isCommand && a.q.Call == kusto.Mgmt:
			return nil, exit.Usagef("%sa management command begins with a dot; for a query use: kusto-agent query", at(s, all))
		}
	}
	return all, nil
}

// at says where a statement is, if there are several.
func at(s script.Statement, all []script.Statement) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("line %d: ", s.Line)
}

// text is that of a file or of stdin.
func (a *asking) text() (string, error) {
	if a.file != "" && a.file != "-" {
		raw, err := os.ReadFile(a.file)
		if err != nil {
			return "", exit.With(exit.Usage, err)
		}
		return strings.TrimPrefix(string(raw), "\ufeff"), nil
	}
	raw, err := io.ReadAll(a.in)
	if err != nil {
		return "", exit.With(exit.Failed, fmt.Errorf("read stdin: %w", err))
	}
	return strings.TrimPrefix(string(raw), "\ufeff"), nil
}
