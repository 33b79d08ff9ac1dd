// Package initconfig writes a first configuration: what no answer says is guessed from a
// sample file or asked, and what is written is a configuration that loads.
package initconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/wire"
	"kusto-agent/internal/schema"
)

// Answers are what the configuration is to say. What is empty is guessed or asked.
type Answers struct {
	Cluster, Database, Path, Table, Mapping, Format              string
	Auth, Tenant, ClientID                                       string
	ClientSecretFile, CertificateFile, TokenFile, Output, Sample string
	Force                                                        bool // a file that is there is overwritten
	Trust                                                        bool // a token is sent to a cluster outside the known domains
	Ask                                                          console.Asker

	guess schema.Guess
	found []string // logs to choose from, where nobody can be asked

	identity func() string // the one of this machine, but in tests
	folders  []string      // where logs are looked for; nil: in logFolders
}

// Run guesses or asks what the answers lack, checks that the configuration loads, and writes it to
// the file c.Output, or to out if that is "-". An existing file needs c.Force. Errors have exit
// codes, except those of writing to out.
func (c *Answers) Run(out console.Output) error {
	if _, err := os.Lstat(c.Output); err == nil && c.Output != "-" && !c.Force {
		return exit.With(exit.Usage, fmt.Errorf("%q is there already; overwrite it with --force, or name another file with --output", c.Output))
	}
	if folder := filepath.Dir(c.Output); c.Output != "-" {
		if info, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return exit.Usagef("--output %q: there is no folder %q; make it, or name another file", c.Output, folder)
		}
	}
	if err := c.which(); err != nil {
		return exit.With(exit.Usage, err)
	}
	if c.Sample != "" {
		if err := c.look(); err != nil {
			return err
		}
	}
	if err := c.complete(); err != nil {
		return exit.With(exit.Usage, err)
	}
	text := c.text()
	if _, err := config.Parse(c.Output, []byte(text), os.LookupEnv, config.Options{}); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("these answers make no configuration, and nothing was written\n%w", err))
	}
	if text := c.matches(); text != "" {
		console.Say("%s", text)
	}
	if c.Output == "-" {
		_, err := out.WriteString(text)
		return err
	}
	if err := c.write(text); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("write the configuration: %w", err))
	}
	at := config.Quoted(c.Output)
	console.Say("%s is written; next: kusto-agent setup --dry-run --config %s", c.Output, at)
	console.Say("then, without --dry-run, and: kusto-agent check --config %s", at)
	if c.Auth == "client_secret" {
		console.Say("the secret is read from %s: a file beside the configuration, or for the service /etc/credstore/%[1]s", c.ClientSecretFile)
	}
	return nil
}

// write writes text to the file c.Output. Without c.Force the file must not exist, and does not exist
// after an error of writing either. With c.Force a file that exists is replaced as a whole, or left
// as it is after an error, and keeps its mode and owner.
func (c *Answers) write(text string) error {
	if !c.Force {
		f, err := os.OpenFile(c.Output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(c.Output) // an incomplete file, which the next run would refuse to overwrite
		}
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.Output), ".agent-*.yaml")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if old, err := os.Stat(c.Output); err == nil { // the new file keeps mode and owner, as a package set them
		mode = old.Mode().Perm()
		if of, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(of.Uid), int(of.Gid)) // fails unless root runs this
		}
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.Output)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // an incomplete temporary file
	}
	return err
}

// complete fills in all answers that the configuration needs: those of the flags are checked, the
// others are asked with a proposal from the sample. Without a terminal the proposals are used, and
// an error names the flags for which there is none.
func (c *Answers) complete() error {
	name := func(kind string) func(string) error {
		return func(s string) error { return kusto.ValidName(kind, s) }
	}
	some := func(string) error { return nil }
	steps := []struct {
		to       *string
		flag     string
		question string
		suggest  func() string
		check    func(string) error
		only     []string // the ways to sign in that need it; nil: all
	}{
		{to: &c.Cluster, flag: "cluster", question: "Query URL of the cluster", check: c.endpoint},
		{to: &c.Database, flag: "database", question: "Database", check: name("database")},
		{to: &c.Path, flag: "path", question: "Files to read, as a pattern", suggest: c.pattern, check: aPattern},
		{to: &c.Format, flag: "format", question: "Format", suggest: c.likelyFormat, check: knownFormat},
		{to: &c.Table, flag: "table", question: "Table", suggest: c.likelyTable, check: name("table")},
		{to: &c.Mapping, flag: "mapping", question: "Mapping", suggest: c.likelyMapping, check: name("mapping")},
		{to: &c.Auth, flag: "auth", question: "How to sign in", suggest: c.likelyMethod, check: c.wayIn},
		{to: &c.Tenant, flag: "tenant", question: "Tenant", check: some, only: []string{"client_secret", "certificate"}},
		{to: &c.ClientID, flag: "client-id", question: "Client id", check: some, only: []string{"client_secret", "certificate"}},
		{to: &c.ClientSecretFile, flag: "client-secret-file", question: "File of the client secret", suggest: func() string { return "kusto-agent.client-secret" }, check: some, only: []string{"client_secret"}},
		{to: &c.CertificateFile, flag: "certificate-file", question: "File of the certificate", check: some, only: []string{"certificate"}},
		{to: &c.TokenFile, flag: "token-file", question: "File of the token", check: some, only: []string{"token_file"}},
	}
	var missing []string
	for _, s := range steps {
		if s.only != nil && !slices.Contains(s.only, c.Auth) {
			continue
		}
		suggested := ""
		if s.suggest != nil {
			suggested = s.suggest()
		}
		optional := s.to == &c.Mapping && !c.needsMapping()
		err := c.Ask.Value(s.to, s.question, suggested, optional, s.check)
		switch {
		case err != nil:
			return fmt.Errorf("--%s: %w", s.flag, err)
		case *s.to == "" && !optional:
			missing = append(missing, "--"+s.flag)
		}
	}
	if len(missing) > 0 {
		text := "missing: " + strings.Join(missing, ", ")
		if slices.Contains(missing, "--client-id") {
			text += "\nneeds none: --auth managed_identity, for the identity of this machine; --auth azure_cli, for the user of az login"
		}
		if len(c.found) > 0 {
			text += "\nlogs on this machine, one of which can be the sample: " + strings.Join(c.found, ", ")
		}
		return errors.New(text)
	}
	if f, ok := format.Lookup(c.Format); ok {
		c.Format = string(f)
	}
	return nil
}

// endpoint returns an error if url is no URL of a cluster, or if no token may be sent to it because
// it is outside the known domains of the service. c.Trust, set by --allow-untrusted-endpoint,
// allows the latter.
func (c *Answers) endpoint(url string) error {
	err := wire.CheckEndpoint(url, c.Trust)
	if err != nil && wire.CheckEndpoint(url, true) == nil {
		return fmt.Errorf("%w, which init does with --allow-untrusted-endpoint", err)
	}
	return err
}

// aPattern returns an error if path is not a valid pattern of files (a glob, also with **).
func aPattern(path string) error {
	if !doublestar.ValidatePathPattern(path) {
		return fmt.Errorf(`%q is no pattern of files; want one such as /srv/app/*.json, and \ before a sign that is not one of a pattern`, path)
	}
	return nil
}

// wayIn returns an error if method is not a valid auth.method, or if it is "none", which sends no
// token, and the cluster is not on this machine.
func (c *Answers) wayIn(method string) error {
	host := strings.TrimPrefix(c.Cluster, "https://")
	switch {
	case !slices.Contains(credential.Methods, method):
		return fmt.Errorf("%q is not a way to sign in; want one of %s", method, strings.Join(credential.Methods, ", "))
	case method == "none" && host != c.Cluster && wire.CheckEndpoint("http://"+host, true) != nil:
		// https and none: allowed only for a host to which plain HTTP would be, that is, this machine
		return errors.New("none is for a cluster on this machine; want a way to sign in, such as client_secret")
	}
	return nil
}

// knownFormat returns an error, with the list of all formats, if name is not the name of a format.
func knownFormat(name string) error {
	if _, ok := format.Lookup(name); ok {
		return nil
	}
	var names []string
	for _, s := range format.All() {
		names = append(names, string(s.Format))
	}
	return fmt.Errorf("%q is not a format; want one of %s", name, strings.Join(names, ", "))
}
