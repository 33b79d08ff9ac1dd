package commands

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
)

// configCommand returns the command config, which only has other commands below it.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration that holds, and what its keys are for",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(), configShowCommand(), configSchemaCommand(), configExplainCommand(), printCommand("reference", "Print every key with what it is for, as Markdown", func() ([]byte, error) { return config.Reference(), nil }))
	return cmd
}

// configCheckCommand returns the command config check, with its help and its flags.
func configCheckCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration file alone, as a start or a reload would",
		Long: "Check the configuration and the files it includes as a start or a reload would, and nothing else: no file of an\n" +
			"input, no disk, no network. Every mistake is printed and the exit code is 78; it prints nothing where there is\n" +
			"none. systemctl reload does it first. What the configuration needs of the machine and of the cluster is\n" +
			"looked at by kusto-agent check.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := loadConfig(path)
			return err
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	return cmd
}

// configShowCommand returns the command config show, with its help and its flags.
func configShowCommand() *cobra.Command {
	var path, input string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the effective configuration, and where each value came from",
		Long: "Show the configuration that the agent would run with: defaults filled in, variables replaced, what the top\n" +
			"level says merged into the inputs, secrets masked. A comment behind each value says where it came from.\n" +
			"But for the secrets it can be used as a configuration.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadTraced(path, os.LookupEnv, config.Options{})
			if err != nil {
				return exit.With(exit.Config, err)
			}
			if err := cfg.HasInput(input); err != nil {
				return exit.With(exit.Usage, err)
			}
			out := console.NewOutput(cmd.OutOrStdout())
			if !asJSON {
				return out.End(cfg.Show(out, input))
			}
			doc, err := cfg.Shown(input)
			if err != nil {
				return err
			}
			return out.End(out.JSON(doc))
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	f.StringVar(&input, "input", "", "show this input alone, by its `name`")
	f.BoolVar(&asJSON, "json", false, "print one JSON object: config, and from, which has the origin of each value by its path")
	return cmd
}

// configSchemaCommand returns the command config schema, with its help.
func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the configuration, for editors",
		Long: "Print a JSON Schema (draft 2020-12) of the configuration and of files it includes. Editors use it to complete\n" +
			"and check keys. What one key means for another it cannot say; the agent checks that.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := console.NewOutput(cmd.OutOrStdout())
			enc := json.NewEncoder(out)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return out.End(enc.Encode(config.Schema()))
		},
	}
}

// configExplainCommand returns the command config explain, with its help and its flags. Its
// argument is completed from the names of all keys.
func configExplainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [KEY]",
		Short: "Say what a key of the configuration is for, and what it can be",
		Long: "Say what a key is for, its type, its default, its values and where it may stand. KEY is a path such as\n" +
			"batch.max_size or inputs.start_at, or one from a message; a section lists its keys, and no KEY those of the top level.",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) (keys []string, _ cobra.ShellCompDirective) {
			for _, key := range config.Keys() {
				if len(args) == 0 && strings.HasPrefix(key, typed) {
					keys = append(keys, key)
				}
			}
			return keys, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, err := config.Explain(append(args, "")[0]) // without an argument: ""
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			return show(cmd, asJSON, topic, func(out console.Output) error { return topic.Write(out) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON object")
	return cmd
}
