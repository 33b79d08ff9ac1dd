// Package commands promises that a command line does one thing, or says what is wrong with it, and
// that its exit code is one of package exit. Every command has a file of its own: flags in, a call of
// the room that does the work, output and exit code.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/version"
)

// Execute runs one command line, prints its error to stderr and returns the exit code: that of an
// exit.Error, exit.Failed for a file that could not be read or written, or exit.Usage for any other
// error.
func Execute(args []string) int {
	root := Root()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" { // that of cobra succeeds where it knows no such command
			c.Run, c.RunE = nil, helpFor
		}
	}
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		unmark(root)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	code := exit.Usage
	var ended *exit.Error
	isAs := errors.As(err, &ended)
	if stopped := errors.Is(err, context.Canceled); stopped && (!isAs || ended.Code != exit.Interrupted) {
		code, err = exit.Interrupted, errors.New("stopped") // only a signal cancels what a command does
	} else if isAs {
		code = ended.Code
		err = ended.Err
	} else if _, onFile := errors.AsType[*fs.PathError](err); onFile { // such as completion, which is cobra's, on a full disk
		code = exit.Failed
	} else { // an error without an exit code is cobra's: the command line is wrong
		err = fmt.Errorf("%w; for help: %s --help", plainUsage(cmd, err), cmd.CommandPath())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, exit.Words(err))
	}
	return code
}

// unmark takes the backquotes, which mark the word for a value in the help, out of what is said of the
// flags of cmd and of the commands below it: a shell shows it as it is.
func unmark(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, c := range cmd.Commands() {
		unmark(c)
	}
}

// Root returns kusto-agent with all its commands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "kusto-agent",
		Short:         "Ships records from files to Azure Data Explorer, and knows what became of each",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var text strings.Builder
	if err := version.Of().Write(&text); err == nil { // a Builder never fails
		root.Version = text.String()
	}
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "print what the command version prints")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return plainFlagError(err) })
	root.AddCommand(runCommand(), demoCommand(), emulatorCommand(), statusCommand(), topCommand(), previewCommand(), versionCommand())
	root.AddCommand(auditCommand(), filesCommand(), tapCommand(), spoolCommand(), quarantineCommand(), queryCommand(), mgmtCommand())
	root.AddCommand(configCommand(), metricsCommand(), manCommand(), checkCommand(), setupCommand(), initCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = sayWhich
		}
	}
	return root
}

// helpFor is the RunE of the command help: it prints the help of the command that args name.
func helpFor(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return exit.Usagef("there is no command %q; for a list: kusto-agent help", strings.Join(args, " "))
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// show prints what a command has found: as one line of JSON, which is doc, or as text writes it.
func show(cmd *cobra.Command, asJSON bool, doc any, text func(console.Output) error) error {
	out := console.NewOutput(cmd.OutOrStdout())
	if asJSON {
		return out.End(out.JSON(doc))
	}
	return out.End(text(out))
}

// untilSignal returns the context of a command, which SIGINT and SIGTERM end too until stop is called.
func untilSignal(cmd *cobra.Command) (ctx context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
}

// versionCommand returns the command version, with its help and its flag.
func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the commit and date it was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, asJSON, version.Of(), func(out console.Output) error { return version.Of().Write(out) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
