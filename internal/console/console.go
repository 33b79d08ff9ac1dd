// Package console is what a person at a terminal sees and types: nothing that is
// printed can steer the terminal, a question has an answer to agree to, and in a
// session of statements each is run when it is whole, and is answered before the next
// is read. What was typed comes back with the arrow keys, and the tabulator completes
// names of the schema.
package console

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reeflective/readline"

	"kusto-agent/internal/script"
)

// Command is what the session itself does. It is one line.
type Command struct {
	Name string // begins with a backslash
	Args string // for help
	Help string
	Run  func(arg string) error
}

// Options say what a session is with.
type Options struct {
	Prompt   func() string
	Schema   func() *Schema // what is known by now; it may return nil
	History  *History
	Commands []Command
	Run      func(s script.Statement) error // an error is printed, and ends no session
	Words    io.Writer                      // for people
}

// ErrQuit is returned by a command to end the session.
var ErrQuit = errors.New("quit")

// Run runs a session: it reads statements and commands from the terminal and runs each, until \q or
// the end of the input. Errors of statements are printed and do not end the session; the result is
// an error of the terminal.
func Run(o Options) error {
	o.Commands = append(o.Commands,
		Command{Name: `\help`, Help: "this", Run: func(string) error { o.help(); return nil }},
		Command{Name: `\q`, Help: "end the session, as Ctrl-D does", Run: func(string) error { return ErrQuit }})
	shell := readline.NewShell()
	for name, value := range map[string]any{
		"cursor-position-probe":        false, // each prompt begins in the first column anyway
		"enable-bracketed-paste":       true,  // tabs and line ends in pasted text are text, not keys
		"multiline-column":             false,
		"history-autosuggest":          false,
		"completion-ignore-case":       true,
		"bell-style":                   "none",
		"usage-hint-always":            false,
		"menu-complete-display-prefix": true, // the common beginning first, then the list of candidates
	} {
		if err := shell.Config.Set(name, value); err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
	}
	shell.History.Delete()
	shell.History.Add("history", o.History)
	shell.Prompt.Primary(o.Prompt)
	shell.AcceptMultiline = func(line []rune) bool { return o.isWhole(string(line)) }
	shell.Completer = func(line []rune, cursor int) readline.Completions {
		return o.completions(string(line[:min(cursor, len(line))]))
	}
	fmt.Fprintln(o.Words, `A statement ends with ; or an empty line. Tab completes, \help tells more, \q ends.`)
	for {
		text, err := shell.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue // Ctrl-C: the line is dropped
		case errors.Is(err, io.EOF):
			fmt.Fprintln(o.Words)
			return nil
		case err != nil:
			return fmt.Errorf("read from the terminal: %w", err)
		}
		if err := o.do(text); errors.Is(err, ErrQuit) {
			return nil
		} else if err != nil {
			fmt.Fprintln(o.Words, err)
		}
	}
}

// isWhole reports whether the text typed so far is run at the end of the line: it is a command of
// the session, or its last statement is complete. Otherwise it goes on in the next line.
func (o *Options) isWhole(text string) bool {
	_, _, is := o.command(text)
	return is || script.Complete(text+"\n")
}

// plain are words that people try to get out with, or help.
var plain = map[string]string{"help": `\help`, "quit": `\q`, "exit": `\q`, `\?`: `\help`, `\h`: `\help`}

// command returns the command of the session that the text is, such as \q, and its argument. is is
// false if the text is a statement of KQL. A text that begins with a backslash is always a command;
// c is nil if there is no command of that name. The plain words help, quit and exit are commands
// too.
func (o *Options) command(text string) (c *Command, arg string, is bool) {
	text = strings.TrimSpace(text)
	name, arg, _ := strings.Cut(strings.TrimSuffix(text, ";"), " ")
	if strings.Contains(text, "\n") || !strings.HasPrefix(text, `\`) && (plain[name] == "" || arg != "") {
		return nil, "", false
	}
	if known, ok := plain[name]; ok {
		name = known
	}
	for i := range o.Commands {
		if o.Commands[i].Name == name {
			return &o.Commands[i], strings.TrimSpace(arg), true
		}
	}
	return nil, "", true
}

// do runs what was typed: a command of the session, or each statement in the text until one fails.
// It returns the first error, or ErrQuit if the session ends.
func (o *Options) do(text string) error {
	if c, arg, is := o.command(text); is {
		if c == nil {
			return fmt.Errorf(`there is no %s; \help lists what there is`, strings.Fields(text)[0])
		}
		return c.Run(arg)
	}
	for _, s := range script.Split(text) {
		if err := o.Run(s); err != nil {
			return err // the statements after it may depend on it
		}
	}
	return nil
}

// help prints the commands of the session, and how to type and stop statements.
func (o *Options) help() {
	for _, c := range o.Commands {
		fmt.Fprintf(o.Words, "  %-16s %s\n", strings.TrimSpace(c.Name+" "+c.Args), c.Help)
	}
	fmt.Fprint(o.Words, `A text that begins with a dot is a management command, all else a query.
Ctrl-C stops what runs, on the service too; a second one ends the program.
Up and down go through the history, Ctrl-R searches it.
`)
}

// completions returns, in the form of the library readline, the ways to complete the text before
// the cursor: commands of the session after a backslash, otherwise words of KQL and names of the
// schema.
func (o *Options) completions(text string) readline.Completions {
	if strings.HasPrefix(text, `\`) && !strings.Contains(text, " ") {
		var names []string
		for _, c := range o.Commands {
			if strings.HasPrefix(c.Name, text) {
				names = append(names, c.Name, c.Help)
			}
		}
		all := readline.CompleteValuesDescribed(names...)
		all.PREFIX = text
		return all
	}
	found, taken := o.Schema().Complete(text)
	// What is completed is the word up to a space, with what the language has before
	// the name, such as a bracket.
	begun := text[strings.LastIndexAny(text, " \t\n")+1:]
	lead := begun[:max(len(begun)-taken, 0)]
	var values []readline.Completion
	for _, c := range found {
		values = append(values, readline.Completion{Value: lead + c.Text, Display: c.Text, Description: c.About})
	}
	all := readline.CompleteRaw(values).NoSort()
	all.PREFIX = begun
	return all
}
