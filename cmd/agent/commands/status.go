package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// statusCommand returns the command status, with its help and its flags.
func statusCommand() *cobra.Command {
	var from watched
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the running agent is doing",
		Long: "Show what the running agent is doing, on one screen: what is wrong and what to do about it, inputs, routes,\n" +
			"clusters and files. The exit code is for scripts and health checks: 0 where nothing needs a person, 1 where\n" +
			"something does (a route that is held, a problem, records in quarantine or dropped), 69 where a cluster or a\n" +
			"route is down, or no agent answers, 77 where it wants another token.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := from.fetch(c.Context())
			if err != nil {
				return err
			}
			err = show(c, asJSON, s, func(out console.Output) error { return telemetry.Render(out, s, out.Color()) })
			return cmp.Or(err, needed(s))
		},
	}
	from.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the status document")
	return cmd
}

// needed returns the error with which the command status ends, which has only an exit code: 69 if a
// cluster or a route is down, 1 if something needs a person, and nil if nothing does.
func needed(s *telemetry.Status) error {
	switch s.Need() {
	case telemetry.NeedPerson:
		return exit.Silently(exit.Failed)
	case telemetry.NeedService:
		return exit.Silently(exit.Unreachable)
	}
	return nil
}

// watched says which running agent to ask for its status.
type watched struct {
	addr, path, dir string
	named           bool // the configuration was
}

// flags adds the flags that say which agent is asked for its status, and notes in w.named whether
// --config is given.
func (w *watched) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.addr, "address", "", "`host:port` of the agent (default: telemetry.listen of the configuration, or the socket in its state_dir where nothing answers there)")
	f.StringVar(&w.path, "config", config.DefaultPath, "the configuration `file`, also for the token and TLS with --address")
	f.StringVar(&w.dir, "state-dir", "", "the state_dir of the agent, a `folder`: asks over the socket in it, as root or as the agent's user")
	cmd.MarkFlagsMutuallyExclusive("address", "state-dir")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { w.named = cmd.Flags().Changed("config") }
}

// fetch asks the agent that the flags name for its status: over its socket with --state-dir or if
// the configuration switches telemetry.listen off, otherwise over HTTP at --address, with the token
// and TLS of the configuration if that is given too, or at telemetry.listen. If the agent of the
// configuration does not answer there, its socket is asked: it may run without an endpoint, or with the
// address that it had before a reload. If --config was given and the agent that answers runs with
// another file, that is an error. Its errors have exit codes.
func (w *watched) fetch(ctx context.Context) (*telemetry.Status, error) {
	if w.dir != "" {
		return overSocket(ctx, w.dir)
	}
	ask := telemetry.Config{Listen: w.addr}
	var unread error // why the configuration does not say where the agent listens
	state := ""      // the folder that has the socket of the agent, if the configuration names its address
	if w.addr == "" || w.named {
		cfg, err := loadService(w.path)
		switch {
		case w.addr != "":
			if err != nil {
				return nil, err
			}
			ask = cfg.Telemetry
			ask.Listen = w.addr
			if err := ask.Validate(); err != nil && ask.TokenFile != "" { // a token in clear
				return nil, exit.Usagef("--address: telemetry.%w", err)
			}
		case err != nil: // every user may ask for the status, also one who cannot read the file
			ask, unread = telemetry.DefaultConfig(), err
		case cfg.Telemetry.Listen == "":
			return overSocket(ctx, cfg.StateDir)
		default:
			ask, state = cfg.Telemetry, cfg.StateDir
		}
	}
	s, err := telemetry.Fetch(ctx, ask)
	isOther := func(s *telemetry.Status) bool { return w.addr == "" && w.named && w.other(s.Config.File) }
	if state != "" && !errors.Is(err, telemetry.ErrToken) && (err != nil || isOther(s)) {
		if own, err := telemetry.FetchStatus(ctx, state); err == nil && !isOther(own) {
			return own, nil
		}
	}
	if err != nil && unread != nil && (w.named || exists(w.path)) {
		return nil, exit.With(exit.Unreachable, fmt.Errorf("%w; it was asked there, the default, since the configuration does not say where:\n%w", err, unread))
	}
	if err != nil {
		return nil, w.unanswered(err, ask.Listen)
	}
	if isOther(s) {
		return nil, exit.With(exit.Failed, fmt.Errorf("the agent at %s runs with %s; name the state_dir of the one you mean with --state-dir, or its --address",
			ask.Listen, telemetry.Printable(s.Config.File)))
	}
	return s, nil
}

// unanswered returns err, of asking the agent at addr, with an exit code and with what to do: only if
// nothing answered there, it may not be running.
func (w *watched) unanswered(err error, addr string) error {
	var op *net.OpError
	switch {
	case errors.Is(err, telemetry.ErrToken):
		return exit.With(exit.Refused, err)
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w; is it running, and is telemetry.listen %q? Name its configuration with --config, or its state_dir with --state-dir", err, addr)
	case w.addr != "" && !w.named:
		err = fmt.Errorf("%w; if telemetry.tls is set there, name its configuration with --config", err)
	}
	return exit.With(exit.Unreachable, err)
}

// overSocket asks the agent with this state_dir for its status. The error has an exit code.
func overSocket(ctx context.Context, dir string) (*telemetry.Status, error) {
	s, err := telemetry.FetchStatus(ctx, dir)
	return s, askError(err, dir)
}

// exists reports whether there is a file at path, or there may be one.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// other reports whether file, the configuration of the agent that answered, is another file than
// that of --config. It is false if that cannot be found out: agents of earlier versions tell a relative
// path as they were given it.
func (w *watched) other(file string) bool {
	asked := config.Absolute(w.path)
	if !filepath.IsAbs(file) || file == asked {
		return false
	}
	a, errA := os.Stat(asked)
	b, errB := os.Stat(file)
	return errA != nil || errB != nil || !os.SameFile(a, b)
}
