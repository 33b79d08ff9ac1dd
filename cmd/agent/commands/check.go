package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kusto-agent/internal/check"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
)

// checkCommand returns the command check, with its help and its flags.
func checkCommand() *cobra.Command {
	c := checking{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check everything that a configuration needs, with the fix for each problem",
		Long: "Check the configuration, the files it reads with the rights of the service, its disks and limits, the path to\n" +
			"the cluster, token, role, tables, mappings and policies, and compare records with their mapping. One run\n" +
			"reports all findings, each with its fix. It changes nothing and sends no record.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd)
			defer stop()
			return c.run(ctx, cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.path, "config", config.DefaultPath, "the configuration `file`")
	f.BoolVar(&c.offline, "offline", false, "leave out what needs the network")
	f.BoolVar(&c.json, "json", false, "print one JSON document")
	f.StringVar(&c.user, "user", "", "the `user` the agent runs as (default: that of the service); only root can look as another")
	return cmd
}

// checking is one run of the command.
type checking struct {
	path, user    string
	offline, json bool
}

// run checks everything and prints the findings, as text or as JSON. If there are errors among
// them, the result has the exit code of the worst and no message.
func (c *checking) run(ctx context.Context, cmd *cobra.Command) error {
	who, err := check.FindService(ctx, c.path, c.user)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	env := environment(c.path, who)
	found, err := check.Run(ctx, check.Options{
		Path: c.path, Env: env, Offline: c.offline, Service: who, Log: runningAgent(c.path, env),
	})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	doc := map[string]any{"findings": append([]check.Finding{}, found...)} // [] where there are none
	err = show(cmd, c.json, doc, func(out console.Output) error { return check.Write(out, found) })
	if code := check.ExitCode(found); err == nil && code != 0 {
		err = exit.Silently(code)
	}
	return err
}

// environment returns the function that looks up environment variables for check of the configuration at
// path, in those of this process. As root on a machine with the systemd unit, it adds the variables that
// systemd sets for the service who, with its state and credential folders, also before they are there.
func environment(path string, who check.Service) config.Env {
	return func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		if ok || who.Unit == "" || os.Geteuid() != 0 {
			return value, ok
		}
		switch name {
		case "STATE_DIRECTORY":
			return who.StateDir(), true
		case "CREDENTIALS_DIRECTORY":
			if who.Unit == config.Unit(config.DefaultPath) {
				return "/etc/credstore", true
			}
			return config.ServiceEnv(path)(name) // those of an instance have other names in the store
		}
		return "", false
	}
}

// runningAgent returns the process id of the agent that runs with the configuration at path, from
// the lock file in its state_dir; 0 if none is known to run.
func runningAgent(path string, env config.Env) int {
	cfg, err := config.Load(path, env, config.Options{})
	if err != nil {
		return 0
	}
	text, _ := os.ReadFile(filepath.Join(cfg.StateDir, "LOCK"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0, which is no process, if there is none
	if program(pid) == "" || program(pid) != program(os.Getpid()) {
		return 0 // that process has ended, and another program may have its id now
	}
	return pid
}

// program returns the name of the executable file that the process pid runs, without its folder; ""
// if that is not known.
func program(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(exe, " (deleted)")) // an upgrade has replaced the file
}
