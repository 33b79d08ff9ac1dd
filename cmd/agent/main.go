// Command agent is kusto-agent: it ships records from files to Azure Data
// Explorer by streaming ingestion, and knows of each what became of it.
//
// This file holds the exit codes; every command has a file of its own.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The exit codes of the program. Scripts rely on them.
const (
	exitFailed      = 1   // a check or an audit failed, or a run-time error
	exitUsage       = 64  // the command line is wrong
	exitUnreachable = 69  // the service was out of reach
	exitRefused     = 77  // a token or a route was refused (401, 403), or there is no token
	exitConfig      = 78  // the configuration is wrong
	exitInterrupted = 130 // somebody stopped it
)

// exitError ends the program with a code of its own. With no error in it,
// everything worth saying was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// version is set by the release build; a checkout tells its commit.
var version = ""

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs one command line and returns the exit code.
func execute(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code := exitUsage // what cobra itself complains about is the command line
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		err = exit.err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, words(err))
	}
	return code
}

// words are those of an error, in which nothing can steer a terminal: it may name a
// file. Its lines stay lines.
func words(err error) string {
	all := strings.Split(err.Error(), "\n")
	for i, line := range all {
		steers := func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }
		if !utf8.ValidString(line) || strings.ContainsFunc(line, steers) {
			all[i] = strconv.Quote(line)
		}
	}
	return strings.Join(all, "\n")
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kusto-agent",
		Short:         "Ships records from files to Azure Data Explorer, and knows what became of each",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), demoCommand(), emulatorCommand(), statusCommand(), previewCommand(), versionCommand())
	root.AddCommand(filesCommand(), tapCommand(), spoolCommand(), quarantineCommand(), queryCommand(), mgmtCommand())
	root.AddCommand(configCommand(), manCommand(), checkCommand(), setupCommand(), initCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = sayWhich
		}
	}
	return root
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := newOutput(cmd)
			if asJSON {
				return out.end(out.JSON(map[string]string{"version": versionText()}))
			}
			fmt.Fprintln(out, "kusto-agent", versionText())
			return out.end(nil)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
