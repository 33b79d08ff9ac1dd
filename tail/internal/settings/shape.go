package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
	"kusto-agent/internal/secretfile"
	"kusto-agent/internal/units"
)

// NewPattern makes the pattern of parse: regex, with the types of its groups and the layout of its
// time. The error is a *format.PatternError or a *TimeError.
func (c InputConfig) NewPattern() (*format.Pattern, error) {
	if c.Time == nil {
		return format.NewPattern(c.Pattern, c.Types, "", nil)
	}
	zone, err := c.ZoneOfTimes()
	if err != nil {
		return nil, err
	}
	layout, err := format.NewLayout(c.Time.Layout, zone)
	if err != nil {
		return nil, &TimeError{"layout", err}
	}
	if c.Time.Member == "" {
		return nil, &TimeError{"member", fmt.Errorf("empty; want the name of the group that is the time")}
	}
	return format.NewPattern(c.Pattern, c.Types, c.Time.Member, layout)
}

// ZoneOfTimes returns the time zone of times in the log that are written without one. The error is
// a *TimeError.
func (c InputConfig) ZoneOfTimes() (*time.Location, error) {
	t := c.Time
	if t == nil {
		t = &Time{Zone: DefaultTime().Zone}
	}
	zone, err := format.ZoneOf(t.Zone)
	if err != nil {
		return nil, &TimeError{"zone", err}
	}
	return zone, nil
}

// TimeError says which key of time is wrong.
type TimeError struct {
	Key string
	Err error
}

func (e *TimeError) Error() string { return "time." + e.Key + ": " + e.Err.Error() }

func (e *TimeError) Unwrap() error { return e.Err }

// NewRules returns the rules that filter and change records; nil: there are none. It reads
// RedactKeyFile if a rule hashes. The error joins all mistakes, each a *rules.Error or a
// *KeyFileError.
func (c InputConfig) NewRules() (*rules.Set, error) {
	all := c.ruleConfig()
	if all.Hashes() {
		var err error
		if all.HashKey, err = readKey(c.RedactKeyFile); err != nil {
			return nil, err
		}
	}
	return c.newRules(all)
}

// CheckRules checks rules like NewRules for a caller that does not read records: the key
// file need not be readable to it. If it is, the key has to be safe and long enough.
func (c InputConfig) CheckRules() error {
	all := c.ruleConfig()
	var bad error
	if all.Hashes() {
		if _, err := readKey(c.RedactKeyFile); !errors.Is(err, fs.ErrPermission) {
			bad = err
		}
		all.HashKey = make([]byte, rules.LeastKey)
	}
	_, err := c.newRules(all)
	return errors.Join(bad, err)
}

// newRules returns the compiled rules of an input; nil: it has none. all has the key for hashes
// already. No rule may have a name that is a reason of its own in the metrics. For a format that is
// read in blocks (Avro) it fails, because rules need single records.
func (c InputConfig) newRules(all rules.Config) (*rules.Set, error) {
	if all.Empty() {
		return nil, nil
	}
	how, _ := format.ParseOf(cmp.Or(c.Parse, "none"))
	kind, ok := format.RuleKind(c.Format, how)
	if !ok {
		return nil, fmt.Errorf("format %s is read in blocks, not in records", c.Format)
	}
	return rules.New(all, kind, Blank, Header, Unmatched, "joined")
}

func (c InputConfig) ruleConfig() rules.Config {
	return rules.Config{Keep: c.Keep, Drop: c.Drop, Sample: c.Sample, Redact: c.Redact, Rename: c.Rename, Remove: c.Remove, Add: c.Add, Header: c.Header == "skip"}
}

// KeyFileError says why RedactKeyFile cannot be used.
type KeyFileError struct{ Err error }

func (e *KeyFileError) Error() string { return "redact_key_file: " + e.Err.Error() }

func (e *KeyFileError) Unwrap() error { return e.Err }

// mostKey is more than any key has.
const mostKey = 64 << 10

// readKey reads the key for hashes from the file at path: its content without line ends at its end.
// The error is a *KeyFileError: the file is missing or not regular, everyone may read or write it,
// or the key is too short or too long.
func readKey(path string) (key []byte, err error) {
	defer func() {
		if err != nil {
			err = &KeyFileError{err}
		}
	}()
	if path == "" {
		return nil, fmt.Errorf("missing; with: hash needs the file of a key, such as one made by: (umask 077; openssl rand -hex 32 >redact.key)")
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s; make it by: (umask 077; openssl rand -hex 32 >FILE)", path)
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case secretfile.IsOpen(st.Mode()):
		return nil, fmt.Errorf("%s can be read or written by everyone (mode %04o), so that hashes hide nothing; run: chmod o= FILE", path, st.Mode().Perm())
	case st.Size() > mostKey:
		return nil, fmt.Errorf("%s is no key: it has %d bytes", path, st.Size())
	}
	if key, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if key = bytes.TrimRight(key, "\r\n"); len(key) < rules.LeastKey {
		return nil, fmt.Errorf("the key in %s has %s; want at least %d", path, units.Counted(len(key), "byte"), rules.LeastKey)
	}
	return key, nil
}

// shapedBy returns the part of the text for the shaping hash that describes how the input's
// settings parse and change records; empty if they do neither. Two inputs with the same text make
// the same bodies of the same bytes.
func (in *Compiled) shapedBy() string {
	text := ""
	if in.rules != nil {
		all := in.ruleConfig()
		text = " " + all.Key()
		if all.Hashes() {
			text += " " + in.rules.KeyID()
		}
	}
	if in.inner > format.ParseText {
		text += " " + in.inner.String()
	}
	if !in.taken().Parsed() {
		return text
	}
	text += fmt.Sprintf(" %q", in.onError)
	if in.pattern != nil {
		text += fmt.Sprintf(" %q %q", in.Pattern, in.Types)
	}
	if in.Time != nil {
		text += fmt.Sprintf(" %q", *in.Time)
	}
	return text
}

// DatesNeeded reports whether the dates of files are kept: lines may not tell their
// year, which is found by a fact that stays, so that what is made again has the same.
func (in *Compiled) DatesNeeded() bool { return in.Time != nil || in.taken() == format.ParseSyslog }

// dated is the date of a file; where it is not kept, because it was known before the
// input needed it, that of its birth.
func dated(i *record.FileInfo) int64 { return cmp.Or(i.Dated, i.Birth) }

// ExpectedColumns are the members of an input's records that follow from its settings, in
// order; nil: the settings do not say. The settings have to be valid.
func (c InputConfig) ExpectedColumns() []format.Column {
	in := &Compiled{Input: Input{InputConfig: c}}
	if in.shape() != nil {
		return nil
	}
	o := in.Options()
	return o.Columns()
}

// HasTexts reports whether all values of the input's records are texts, even those that look like
// numbers. This is so for parse: logfmt, also of the messages in container logs.
func (c InputConfig) HasTexts() bool {
	parse, _ := format.ParseOf(c.Parse)
	inner, _ := format.InnerOf(c.Inner)
	return parse.Taken(inner) == format.ParseLogfmt
}

// ScanOptions are the options of the scanner for this input, for a caller that reads files
// without tailing them.
func (in Input) ScanOptions() (format.Options, error) {
	x, err := Compile(in)
	if err != nil {
		return format.Options{}, err
	}
	return x.Options(), nil
}
