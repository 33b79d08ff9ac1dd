package commands

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/version"
)

// manCommand returns the command man, with its help and its flags.
func manCommand() *cobra.Command {
	var dir string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "man [COMMAND...]",
		Short: "Print the manual page of a command",
		Long: "Print the manual page of a command, or of the program. To read one: kusto-agent man run | man -l -\n" +
			"With --dir the pages of all commands are written there, to be installed in a folder such as /usr/share/man/man1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			prepareManual(root)
			if dir != "" {
				return writeManual(root, dir, args)
			}
			if markdown {
				out := console.NewOutput(cmd.OutOrStdout())
				return out.End(manualPage(out, root))
			}
			of, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return exit.With(exit.Usage, fmt.Errorf("there is no command %q; for a list: kusto-agent help", strings.Join(args, " ")))
			}
			out := console.NewOutput(cmd.OutOrStdout())
			return out.End(doc.GenMan(of, manualHeader(), out))
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print all commands as one page of Markdown")
	cmd.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to this `folder`")
	return cmd
}

// manualPage writes the help of every command below root, with its flags, to w as one Markdown
// page. It returns the first error of writing.
func manualPage(w io.Writer, root *cobra.Command) error {
	_, err := fmt.Fprint(w, "# Every command\n\nWritten by `kusto-agent man --markdown`: do not edit it. `kusto-agent help COMMAND` says the same of one command.\n")
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Hidden || c.Name() == "help" || err != nil {
				continue
			}
			c.InitDefaultHelpFlag()
			_, err = fmt.Fprintf(w, "\n## %s\n\n```\n%s\n\n%s", c.CommandPath(), strings.TrimSpace(cmp.Or(c.Long, c.Short)), c.UsageString())
			fmt.Fprint(w, "```\n")        // if this fails, so does the next write
			if c.Name() != "completion" { // the commands below it have long texts about each shell
				each(c)
			}
		}
	}
	each(root)
	return err
}

// writeManual writes the manual pages of all commands to the folder dir, which it makes. args are
// the arguments of the command, of which it takes none.
func writeManual(root *cobra.Command, dir string, args []string) error {
	if len(args) > 0 {
		return exit.With(exit.Usage, fmt.Errorf("--dir writes the pages of all commands; leave %q out", strings.Join(args, " ")))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("make folder for the manual: %w", err))
	}
	if err := doc.GenManTree(root, manualHeader(), dir); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("write manual: %w", err))
	}
	return nil
}

// programManual is what the page of the program has beyond its help.
//
//go:embed manual.md
var programManual string

// prepareManual changes the command root for the manual: it adds the command help, which cobra
// otherwise adds only when a command line is run, and the long text of the page.
func prepareManual(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.DisableAutoGenTag = true // its footer would have today's date
	root.Long = programManual
}

// manualHeader returns the header of the manual pages. Their date is that of the commit that the
// program was built from; if it is not known, the library uses today's.
func manualHeader() *doc.GenManHeader {
	return &doc.GenManHeader{Section: "1", Source: footer(version.Text()), Manual: "kusto-agent", Date: version.Of().Time()}
}

// maxFooter is the room of 80 columns up to the date, which stands in the middle of the last line of a page.
const maxFooter = 34

// footer returns what stands at the left of the last line of a page: the program with its version, or, where
// that is the long one of a package that was made without a version, with the commit at its end.
func footer(of string) string {
	const program = "kusto-agent "
	if len(program+of) > maxFooter {
		of = of[strings.LastIndexByte(of, '.')+1:]
	}
	return program + of
}
