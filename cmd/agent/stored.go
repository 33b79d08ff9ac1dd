package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
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
			return "", exit.With(exit.Config, fmt.Errorf("%w\nwithout a configuration: name the folder with --dir", err))
		}
		s.dir, must = where(cfg), cfg.StateDir
	}
	st, err := os.Stat(must)
	switch {
	case err != nil:
		return "", exit.Reading(err)
	case !st.IsDir():
		return "", exit.With(exit.Failed, fmt.Errorf("%q is not a folder", must))
	}
	return s.dir, nil
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
