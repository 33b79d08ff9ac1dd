package settings

import (
	"errors"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/finder"
)

// InputConfig is what one input reads and where its records go. Start from
// DefaultInputConfig.
type InputConfig struct {
	Name        string   `yaml:"name"`    // in metrics, logs, state and commands
	Paths       []string `yaml:"paths"`   // globs; ** matches folders
	Exclude     []string `yaml:"exclude"` // globs; one without a slash matches the base name
	Destination `yaml:",inline"`
	Following   `yaml:",inline"`
	Framing     `yaml:",inline"`
	Rules       `yaml:",inline"`
}

// Destination is where the records of an input go, and as what.
type Destination struct {
	Cluster     string        `yaml:"cluster"` // name of a cluster
	Database    string        `yaml:"database"`
	Table       string        `yaml:"table"`
	Mapping     string        `yaml:"mapping"` // empty: none
	Format      record.Format `yaml:"format"`
	Compression string        `yaml:"compression"` // gzip or none; auto before it was resolved
	Durability  string        `yaml:"durability"`  // file or spool
}

// Following says which of the files that match are read, from where on, and for how long.
type Following struct {
	StartAt          string         `yaml:"start_at"`           // beginning or end, for files that exist when the input is first seen
	IgnoreOlder      units.Duration `yaml:"ignore_older"`       // files never read and not changed for longer are left alone; 0: none are
	Compressed       string         `yaml:"compressed"`         // auto or never
	Watch            string         `yaml:"watch"`              // auto or poll
	RotateQuiet      units.Duration `yaml:"rotate_quiet"`       // for how long nothing is written to what nobody writes to any more, see docs/design.md
	ForgetAfter      units.Duration `yaml:"forget_after"`       // positions of files that are gone are kept this long
	MaxPinnedDeleted units.Size     `yaml:"max_pinned_deleted"` // most bytes held open in deleted files
}

// Framing says what a record is and how it is taken apart.
type Framing struct {
	MaxRecordSize   units.Size        `yaml:"max_record_size"`   // bytes; of formats with records that are seen
	Header          string            `yaml:"header"`            // skip or none
	Validate        string            `yaml:"validate"`          // record or none
	Encoding        string            `yaml:"encoding"`          // utf-8, utf-16le, utf-16be or latin1
	PartialLineWait units.Duration    `yaml:"partial_line_wait"` // 0: a last line without its newline is held
	Multiline       *Multiline        `yaml:"multiline"`         // nil: every line is a record
	Parse           string            `yaml:"parse"`             // a word of format.Parses
	Inner           string            `yaml:"inner"`             // a word of format.Inners: what the messages of container logs hold
	Pattern         []string          `yaml:"pattern"`           // regular expressions with named groups, tried in order, for parse: regex
	Types           map[string]string `yaml:"types"`             // of the groups of Pattern by name: string, long, real or bool
	Time            *Time             `yaml:"time"`              // which group is a time, and how it is written; nil: none is
	OnError         string            `yaml:"on_error"`          // raw, quarantine or drop: what becomes of records that are not as Parse says
}

// Rules say which records are sent, and what is changed in them.
type Rules struct {
	Keep          []rules.Condition `yaml:"keep"`            // a record is left out where none of them holds; empty: none is
	Drop          []rules.Rule      `yaml:"drop"`            // a record is left out where one of them holds
	Sample        *rules.Sample     `yaml:"sample"`          // how much of the records that are left is sent; nil: all
	Redact        []rules.Redaction `yaml:"redact"`          // what of a record is not sent as it is
	RedactKeyFile string            `yaml:"redact_key_file"` // holds the key of hashes
	Rename        map[string]string `yaml:"rename"`          // members, and their new names
	Remove        []string          `yaml:"remove"`          // members
	Add           map[string]string `yaml:"add"`             // members, and their texts
	Fields        map[string]string `yaml:"fields"`          // added to every record; values may hold {name} places
}

// Multiline says which lines belong to one event.
type Multiline struct {
	Start    string         `yaml:"start"`  // regular expression of an event's first line
	Preset   string         `yaml:"preset"` // a known expression by name, in place of Start
	MaxLines int            `yaml:"max_lines"`
	MaxWait  units.Duration `yaml:"max_wait"`
}

// Time says which member is a time, and how the log writes it.
type Time struct {
	Member string `yaml:"member"`
	Layout string `yaml:"layout"` // a name of format.LayoutNames, or 2 January 2006, 15:04:05 at -0700 as the log writes it
	Zone   string `yaml:"zone"`   // of times that do not tell theirs: local, utc, or a name
}

// DefaultTime is what holds where time is given and says nothing.
func DefaultTime() Time { return Time{Member: "time", Zone: "local"} }

// DefaultInputConfig returns the values of the keys that the configuration of an input does not
// set.
func DefaultInputConfig() InputConfig {
	return InputConfig{
		Destination: Destination{Compression: "auto", Durability: "file"},
		Following: Following{
			StartAt:          "beginning",
			Compressed:       "auto",
			Watch:            "auto",
			RotateQuiet:      units.Duration(5 * time.Second),
			ForgetAfter:      units.Duration(24 * time.Hour),
			MaxPinnedDeleted: units.GiB,
		},
		Framing: Framing{
			MaxRecordSize: units.MiB,
			Header:        "none",
			Validate:      "record",
			Encoding:      "utf-8",
			Parse:         "none",
			Inner:         "text",
			OnError:       "raw",
		},
	}
}

// DefaultMultiline is what holds where multiline is given and says nothing.
func DefaultMultiline() Multiline {
	return Multiline{MaxLines: 500, MaxWait: units.Duration(time.Second)}
}

// Check returns every complaint about a value by itself as a *units.KeyError, joined. It does not
// check what depends on the rest of the configuration, such as the names of clusters and formats.
func (c InputConfig) Check() error {
	errs := []error{
		units.OneOf("compression", c.Compression, "auto", "gzip", "none"),
		units.OneOf("start_at", c.StartAt, "beginning", "end"),
		units.OneOf("header", c.Header, "skip", "none"),
		units.OneOf("validate", c.Validate, "record", "none"),
		units.OneOf("durability", c.Durability, "file", "spool"),
		units.OneOf("parse", c.Parse, format.Parses()...),
		units.OneOf("inner", c.Inner, format.Inners()...),
		units.OneOf("on_error", c.OnError, "raw", "quarantine", "drop"),
		units.OneOf("encoding", c.Encoding, "utf-8", "utf-16le", "utf-16be", "latin1"),
		units.OneOf("compressed", c.Compressed, "auto", "never"),
		units.OneOf("watch", c.Watch, "auto", "poll"),
	}
	if c.MaxRecordSize < 1 {
		errs = append(errs, units.Bad("max_record_size", "%v is out of range; want more than 0", c.MaxRecordSize))
	}
	return errors.Join(errs...)
}

// Excludes reports whether a path is not to be read though it matches Paths: a
// pattern without a slash is for the last name alone.
func (c InputConfig) Excludes(path string) bool {
	return finder.Excluded(c.Exclude, path)
}
