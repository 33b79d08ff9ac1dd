// Package config turns one YAML document, and the files it includes, into one
// checked Config: whatever Load returns is complete and fits together, and
// whatever is wrong with a file is told in one run, each mistake with its
// line, its column and what was meant.
//
// Nothing here opens a file other than the configuration itself, except to
// see which files the inputs would match. Secrets are neither printed nor
// quoted in errors.
package config

import (
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/sender"
	"kusto-agent/spool"
	"kusto-agent/tail"
)

// DefaultPath is where the configuration lies unless told otherwise.
const DefaultPath = "/etc/kusto-agent/agent.yaml"

// DefaultCluster is the name of the cluster of the top level.
const DefaultCluster = "default"

// Config is the effective configuration: defaults filled in, what the top
// level says merged into the inputs, names and URLs checked. It is not changed
// after Load, and may be shared.
type Config struct {
	Clusters map[string]Cluster // by name; that of the top level is DefaultCluster
	Inputs   []Input            // in the order of the files; at least one
	General
	Batch batcher.Config // of the top level; each input has its own, merged
	Sections
	Files []string // that were read: the main file, then the included ones
}

// General is the single keys of the top level that are not about clusters.
type General struct {
	AllowUntrustedEndpoint bool           `yaml:"allow_untrusted_endpoint"`
	StateDir               string         `yaml:"state_dir"`
	App                    string         `yaml:"app"`  // ASCII, fit for a header
	User                   string         `yaml:"user"` // likewise; may be empty
	ShutdownTimeout        units.Duration `yaml:"shutdown_timeout"`
}

// Sections are the sections of the top level that hold for all inputs and clusters.
type Sections struct {
	Send       sender.Config     `yaml:"send"`
	Spool      spool.Config      `yaml:"spool"` // Dir is never empty
	Quarantine quarantine.Config `yaml:"quarantine"`
	Journal    journal.Config    `yaml:"journal"`
	Limits     Limits            `yaml:"limits"`
	Telemetry  telemetry.Config  `yaml:"telemetry"`
}

// Cluster is one cluster that inputs send to.
type Cluster struct {
	URL      string            // of the engine, without a trailing slash
	Database string            // of inputs that name none; may be empty
	Auth     credential.Config // Method is not auto where a client secret is given; files are resolved to paths
}

// Input is one input with all that holds for it: Name, Cluster, Database,
// Format and Compression are always set, and Format is in its documented
// spelling.
type Input struct {
	tail.InputConfig `yaml:",inline"`
	Batch            batcher.Config `yaml:"batch"`
	ClusterURL       string         `yaml:"-"`
}

// Route returns where the records of the input go: cluster, database and table, with format and
// mapping.
func (in *Input) Route() record.Route {
	return record.Route{Cluster: in.ClusterURL, Database: in.Database, Table: in.Table, Format: in.Format, Mapping: in.Mapping}
}

// Limits bounds what the agent takes of the machine.
type Limits struct {
	Memory    units.Size `yaml:"memory"`     // bytes for records that were read and are not yet safe
	OpenFiles int        `yaml:"open_files"` // most that are held open at one time
}

// Bounds of Limits.
const (
	minBlocks    = 4 // one each to read, to compress, to send, and one to spare
	minOpenFiles = 16
)

// check returns all mistakes in the limits, each a *units.KeyError; nil if there are none. largest
// is the largest batch.max_size of all inputs.
func (l Limits) check(largest units.Size) (errs []error) {
	if least := minBlocks * largest; l.Memory < least {
		errs = append(errs, units.Bad("memory", "%v is too little; want at least %v, %d times the largest batch.max_size", l.Memory, least, minBlocks))
	}
	if l.OpenFiles < minOpenFiles {
		errs = append(errs, units.Bad("open_files", "%d is too little; want at least %d", l.OpenFiles, minOpenFiles))
	}
	return errs
}

// DefaultConfig returns the settings that apply to every key that the configuration does not set. It
// has no cluster and no input.
func DefaultConfig() Config {
	return Config{
		General: General{App: "kusto-agent", ShutdownTimeout: units.Duration(60 * time.Second)},
		Batch:   batcher.DefaultConfig(),
		Sections: Sections{
			Send:       sender.DefaultConfig(),
			Spool:      spool.DefaultConfig(),
			Quarantine: quarantine.DefaultConfig(),
			Journal:    journal.DefaultConfig(),
			Limits:     Limits{Memory: 256 * units.MiB, OpenFiles: 4096},
			Telemetry:  telemetry.DefaultConfig(),
		},
	}
}

// Options are the parts of the check that are not the same everywhere. The
// zero value is what the agent uses.
type Options struct {
	// ClustersOnly is for who sends nothing: inputs, included files and what they
	// need together are not looked at, and Config.Inputs is empty. The URL of a
	// cluster may be of one that answers queries and takes no data.
	ClustersOnly bool
}

// Load reads the file at path and those it includes. The error is an *Errors
// if there is anything wrong with them.
func Load(path string, env Env, o Options) (*Config, error) {
	t, err := LoadTraced(path, env, o)
	return t.Config, err
}

// Parse is Load for text that was read already. Errors show name as the file, and relative
// paths are looked up in its folder.
func Parse(name string, text []byte, env Env, o Options) (*Config, error) {
	t, err := ParseTraced(name, text, env, o)
	return t.Config, err
}

// LoadTraced reads the file at path and those it includes. The result also says where each value came
// from; after an error, which is an *Errors, it has no Config.
func LoadTraced(path string, env Env, o Options) (Traced, error) {
	out := newReport()
	text, err := readFile(path)
	if err != nil {
		out.add(unread(path, err))
		return Traced{}, out.err()
	}
	return parse(path, text, env, o, out)
}

// ParseTraced reads a configuration from text; name stands for its file. The result also says where
// each value came from; after an error, which is an *Errors, it has no Config.
func ParseTraced(name string, text []byte, env Env, o Options) (Traced, error) {
	out := newReport()
	if len(text) > maxFileSize {
		out.add(unread(name, errTooLarge))
		return Traced{}, out.err()
	}
	return parse(name, text, env, o, out)
}

// parse checks the text of the main file and reads the files that it includes. out collects the
// problems.
func parse(name string, text []byte, env Env, o Options, out *report) (Traced, error) {
	l := newLoader(name, env, o, out)
	l.load(text)
	if err := out.err(); err != nil {
		return Traced{}, err
	}
	return Traced{Config: l.cfg, from: l}, nil
}
