// Package queryshell runs queries and management commands that a person or a script
// typed: nothing is sent before all of it was understood, results come as they arrive in
// the form that was asked for, and an interrupt stops the request on the service too.
package queryshell

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/script"
	"kusto-agent/internal/units"
)

// Shell is one run of query or mgmt.
type Shell struct {
	Query      query.Query // what all statements have in common
	Target     Target
	Paper      Paper
	File       string   // of the statements; "-" is In, empty: they are an argument or come from In
	Options    []string // of requests, as name=value
	Parameters []string // as name:type=value
	V1         bool     // queries go by the first version of the interface

	In         io.Reader
	Out, Words io.Writer // for results and for people

	to   *endpoint.Connection
	sent int // requests so far
}

// Run runs the statements of args, of a.File or of a.In. If all are missing and a.In is a terminal,
// it opens a session. All statements are checked before the first one runs. Errors have exit codes.
func (a *Shell) Run(ctx context.Context, args []string) error {
	if err := a.readFlags(); err != nil {
		return err
	}
	all, err := a.statements(args)
	if err != nil {
		return err
	}
	return a.runAll(ctx, all)
}

// readFlags validates the flags and parses those for parameters and options into a.Query. Its
// errors are about usage.
func (a *Shell) readFlags() error {
	if err := a.Paper.check(a.Out, a.Words); err != nil {
		return err
	}
	for _, one := range []struct {
		flag, value string
		least       rune // names may hold spaces, a request id may not
	}{{"--request-id", a.Query.RequestID, '!'}, {"--app", a.Query.App, ' '}, {"--user", a.Query.User, ' '}} {
		if strings.ContainsFunc(one.value, func(r rune) bool { return r < one.least || r > '~' }) {
			return exit.Usagef("%s %q: want ASCII letters, digits and signs", one.flag, one.value)
		}
	}
	if a.Query.Timeout < 0 || a.Query.Timeout > query.MaxTimeout {
		return exit.Usagef("--timeout %v: want at most %v, which is what the service allows", units.Duration(a.Query.Timeout), units.Duration(query.MaxTimeout))
	}
	for _, p := range a.Parameters {
		parameter, err := query.ParseParameter(p)
		if err != nil {
			return exit.Usagef("--param %w", err)
		}
		a.Query.Parameters = append(a.Query.Parameters, parameter)
	}
	a.Query.Options = make(map[string]any)
	for _, o := range a.Options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return exit.Usagef("--option %q: want name=value", o)
		}
		a.Query.Options[name] = optionValue(value)
	}
	return nil
}

// optionValue returns the value of a request option: the JSON value of the text, or the text itself
// as a string if it is not JSON.
func optionValue(text string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) == nil && !dec.More() {
		return v
	}
	return text
}

// statements returns the statements to run, all checked; nil if the user is to type them in a
// session. An argument is one statement as a whole, while a file or stdin is split into statements.
// Its errors are about usage.
func (a *Shell) statements(args []string) ([]script.Statement, error) {
	var all []script.Statement
	switch {
	case len(args) > 0 && a.File != "":
		return nil, exit.Usagef("there is a text and a file; want one of them")
	case len(args) > 0 && args[0] != "-":
		if all = script.Split(args[0]); len(all) > 0 {
			all = []script.Statement{{Text: args[0], Line: 1}}
		}
	case len(args) == 0 && a.File == "" && console.IsTerminal(a.In):
		if !a.Paper.out.Terminal {
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
		return nil, exit.Usagef("the text is empty; give one as an argument, in a file with -f, or by stdin")
	}
	if len(all) > 1 && a.Paper.isPicture() {
		return nil, exit.Usagef("a picture is of one query, and the text has %d", len(all))
	}
	for _, s := range all {
		switch isCommand := query.IsCommand(s.Text); {
		case isCommand && a.Query.Call != query.Mgmt:
			return nil, exit.Usagef("%sa text that begins with a dot is a management command; use: kusto-agent mgmt", at(s, all))
		case !isCommand && a.Query.Call == query.Mgmt:
			return nil, exit.Usagef("%sa management command begins with a dot; for a query use: kusto-agent query", at(s, all))
		}
	}
	return all, nil
}

// at returns the place of the statement s for an error text, such as "line 3: "; "" if all has only
// this statement.
func at(s script.Statement, all []script.Statement) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("line %d: ", s.Line)
}

// text returns the content of the file of statements, or of stdin if no file or "-" is given,
// without a byte order mark.
func (a *Shell) text() (string, error) {
	var raw []byte
	var err error
	if a.File != "" && a.File != "-" {
		raw, err = os.ReadFile(a.File)
		err = exit.Default(exit.Usage, err)
	} else if raw, err = io.ReadAll(a.In); err != nil {
		err = exit.With(exit.Failed, fmt.Errorf("read stdin: %w", err))
	}
	return strings.TrimPrefix(string(raw), "\ufeff"), err
}
