package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/agent"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/statedir"
	"kusto-agent/internal/stored"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// What the commands have in common that read what an agent keeps on disk, and that change
// it. Those that read take no lock and ask nobody, so they tell the same whether the agent
// runs or not. Those that change something have the agent do it, or lock its folders.

// kept is what one of them is told.
type kept struct {
	config, dir    string
	json, yes, all bool
	filter         stored.Filter
	cfg            *config.Config // nil: none was read
	what           string         // "spool" or "quarantine", of a command that only reads
	hint           string         // what to do without a configuration; may be empty
}

// reads adds the flags of a command that only reads; what is the word for it in the help, "spool"
// or "quarantine".
func (k *kept) reads(cmd *cobra.Command, what string) {
	f := cmd.Flags()
	f.StringVar(&k.config, "config", config.DefaultPath, "the configuration `file` that says where the "+what+" is")
	f.StringVar(&k.dir, "dir", "", "read this `folder`, without a configuration")
	k.what = what
	k.hint = "\nwithout a configuration: name the folder with --dir"
}

// changes adds the flags of a command that changes the spool or quarantine.
func (k *kept) changes(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.config, "config", config.DefaultPath, "the configuration `file` of the agent")
	f.BoolVar(&k.all, "all", false, "all of them, where nothing else says which")
	f.BoolVar(&k.json, "json", false, "print what was done as one JSON document")
}

func (k *kept) asks(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&k.yes, "yes", false, "do it without asking")
}

// chooses adds the flags that choose among the payloads in the spool or the records in quarantine;
// what is "payloads" or "records".
func (k *kept) chooses(cmd *cobra.Command, what string) {
	f := cmd.Flags()
	f.StringArrayVar(&k.filter.Inputs, "input", nil, "only "+what+" of this `input`; may be given more than once")
	f.StringArrayVar(&k.filter.Tables, "table", nil, "only "+what+" for this `table`, or Database.Table; may be given more than once")
	f.StringVar(&k.filter.Since, "since", "", "only "+what+" that came after this `time`: one ago, such as 2h or 7d, or 2026-01-02T15:04:05Z")
	f.StringVar(&k.filter.Before, "before", "", "only "+what+" that came before this `time`")
	if what == "records" {
		f.StringArrayVar(&k.filter.Reasons, "reason", nil, "only records refused for this `reason`: too_long, malformed, refused or grown; may be given more than once")
	}
}

// oneOf returns the check of a command that takes exactly one argument. name is that of the
// argument in the error, command the one whose output shows its values.
func oneOf(name, command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return exit.Usagef("want one %s, and got %d; kusto-agent %s shows them", name, len(args), command)
	}
}

// choose returns the filter of the flags with ids, the arguments of the command, and an error if a
// flag is wrong.
func (k *kept) choose(ids []string) (stored.Filter, error) {
	k.filter.IDs = ids
	err := k.filter.Check(time.Now())
	return k.filter, err
}

// load reads the configuration that --config names, once, and keeps it in k.cfg. It fails if its
// state_dir does not exist. Its errors have exit codes.
func (k *kept) load() (*config.Config, error) {
	if k.cfg != nil {
		return k.cfg, nil
	}
	cfg, err := loadService(k.config)
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("%w%s", err, k.hint))
	}
	k.cfg = cfg
	return cfg, isFolder(cfg.StateDir, "")
}

// isFolder returns an error with an exit code if there is no folder at path, which the flag names; "":
// the configuration does.
func isFolder(path, flag string) error {
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		return exit.With(exit.Failed, fmt.Errorf("%q is not a folder", path))
	}
	return exit.ReadingFrom(flag, err)
}

// fileNames are the names of the files that the agent keeps in a folder.
var fileNames = map[string]*regexp.Regexp{
	"spool":      regexp.MustCompile(`^[0-9a-f]{16}\.seg`),
	"quarantine": regexp.MustCompile(`^[0-9a-f]{16}\.jsonl`),
}

// isThat returns an error with an exit code if the folder dir is not what the command reads: it has
// files or folders, and none that a spool, or quarantine, has.
func (k *kept) isThat(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return exit.Reading(err)
	}
	is := func(e os.DirEntry) bool { return fileNames[k.what].MatchString(e.Name()) }
	switch {
	case len(entries) == 0 || slices.ContainsFunc(entries, is):
		return nil
	case isFolder(filepath.Join(dir, k.what), "") == nil:
		return exit.With(exit.Failed, fmt.Errorf("%q is a state_dir: give its folder, --dir %s", dir, config.Quoted(filepath.Join(dir, k.what))))
	}
	return exit.With(exit.Failed, fmt.Errorf("%q is no %s of an agent: it has none of its files; name another folder with --dir", dir, k.what))
}

// folder returns the folder of the spool or of quarantine: that of --dir, or else what where returns
// for the configuration. A folder from the configuration may be missing, since the agent makes it
// only when needed; then state_dir has to exist. Its errors have exit codes.
func (k *kept) folder(where func(*config.Config) string) (string, error) {
	if k.dir != "" {
		return k.dir, cmp.Or(isFolder(k.dir, "--dir"), k.isThat(k.dir))
	}
	cfg, err := k.load()
	if err != nil {
		return "", err
	}
	dir := where(cfg)
	if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", exit.Reading(err)
	}
	return dir, nil
}

// spoolFolder returns the folder of the spool of the agent with this state_dir: if it runs and answers,
// the one that it has, since another spool.dir holds only after a restart, and else configured.
func spoolFolder(ctx context.Context, state, configured string) string {
	if s, err := telemetry.FetchStatus(ctx, state); err == nil && s.Spool != nil && s.Spool.Dir != "" { // "": an earlier version
		return s.Spool.Dir
	}
	return configured
}

func quarantineFolder(c *config.Config) string { return filepath.Join(c.StateDir, "quarantine") }

// change calls do with the keeper that can change the spool and quarantine: the running agent, over
// its control socket, or if none runs, this process, which locks state_dir meanwhile. The
// configuration must be loaded. Its errors have exit codes.
func (k *kept) change(cmd *cobra.Command, do func(context.Context, custody.Keeper) error) error {
	ctx, stop := untilSignal(cmd)
	defer stop()
	dir := k.cfg.StateDir
	remote := func() error { return askError(do(ctx, custody.Remote{Dir: dir}), dir) }
	if telemetry.Answers(dir) {
		return remote()
	}
	a, err := agent.Open(k.cfg, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if errors.Is(err, statedir.ErrInUse) && telemetry.Answers(dir) { // it was just starting
		return remote()
	}
	if err != nil {
		return err
	}
	return exit.Default(exit.Failed, cmp.Or(do(ctx, a), a.Close()))
}

// nothing ends a command that would change something but has nothing to change. If err is not nil,
// it returns err. Otherwise it says that nothing was changed; with --json it prints doc, a result
// of zeros.
func (k *kept) nothing(cmd *cobra.Command, err error, doc any) error {
	if err != nil {
		return err
	}
	return k.done(cmd, doc, "nothing is chosen by that, and nothing was changed")
}

// remove gives up what was chosen, if it is confirmed: do has a keeper do it, and words says how
// much it was. err is that of the choice.
func (k *kept) remove(cmd *cobra.Command, c *stored.Choice, err error,
	do func(context.Context, custody.Keeper) (*custody.Removed, error), words func(*custody.Removed) string) error {
	if err != nil || len(c.IDs) == 0 {
		return k.nothing(cmd, err, &custody.Removed{})
	}
	if err := stored.Confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), "Give up "+c.Text+" for good?", k.yes); err != nil {
		return err
	}
	return k.change(cmd, func(ctx context.Context, keeper custody.Keeper) error {
		r, err := do(ctx, keeper)
		if err != nil {
			return err
		}
		if err := k.done(cmd, r, words(r)+" given up"); err != nil || len(r.Busy) == 0 {
			return err
		}
		return exit.With(exit.Failed, fmt.Errorf("the agent has %s in hand and keeps them: %s; try again", units.Counted(len(r.Busy), "payload"), strings.Join(r.Busy, " ")))
	})
}

// done prints what a command has done: with --json doc as a JSON document on stdout, otherwise
// words on stderr, one a line; empty ones are left out.
func (k *kept) done(cmd *cobra.Command, doc any, words ...string) error {
	if k.json {
		out := console.NewOutput(cmd.OutOrStdout())
		return out.End(out.JSON(doc))
	}
	for _, w := range words {
		if w != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), telemetry.Printable(strings.TrimSpace(w)))
		}
	}
	return nil
}

// group returns a command that does nothing itself, and has the commands below under it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: sayWhich}
	cmd.AddCommand(below...)
	return cmd
}

// sayWhich is the RunE of a command that only has others below it: it returns an error with their
// names.
func sayWhich(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%s: say which: %s", cmd.CommandPath(), strings.Join(names, ", "))
}
