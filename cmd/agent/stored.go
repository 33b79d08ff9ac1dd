package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kusto-agent/config"
	"kusto-agent/internal/console"
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

// output is stdout of a command.
type output struct{ console.Output }

func newOutput(cmd *cobra.Command) output { return output{console.NewOutput(cmd.OutOrStdout())} }

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
