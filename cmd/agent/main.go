// Command agent is kusto-agent: it ships records from files to Azure Data
// Explorer by streaming ingestion, and knows of each what became of it.
//
// This file holds the exit codes; every command has a file of its own.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/version"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs one command line, prints its error to stderr and returns the exit code: that of an
// exit.Error, or exit.Usage for any other error.
func execute(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code := exit.Usage // an error without an exit code is cobra's: the command line is wrong
	var ended *exit.Error
	if errors.As(err, &ended) {
		code = ended.Code
		err = ended.Err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, exit.Words(err))
	}
	return code
}

// rootCommand returns kusto-agent with all its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kusto-agent",
		Short:         "Ships records from files to Azure Data Explorer, and knows what became of each",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
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

// versionCommand returns the command version, with its help and its flag.
func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the commit and date it was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := console.NewOutput(cmd.OutOrStdout())
			if asJSON {
				return out.End(out.JSON(version.Of()))
			}
			return out.End(version.Of().Write(out))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
