package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestInnerShapes: a batch is not made again by another inner, and is where none was told
// before there was such a key; the dates of files are kept where inner needs them.
func TestInnerShapes(t *testing.T) {
	f := func(inner string) *Compiled {
		c := DefaultInputConfig()
		c.Name, c.Format, c.Parse, c.Inner = "in", record.JSON, "cri", inner
		in, err := Compile(Input{InputConfig: c, MaxSize: 1 << 20})
		must(t, err)
		return in
	}
	none := f("")
	if f("text").Shaping != none.Shaping {
		t.Error("text is another shape than none")
	}
	seen := map[uint64]string{none.Shaping: "none"}
	for _, inner := range []string{"json", "logfmt", "combined", "syslog"} {
		in := f(inner)
		if other := seen[in.Shaping]; other != "" {
			t.Errorf("%s is the shape of %s", inner, other)
		}
		if seen[in.Shaping] = inner; in.DatesNeeded() != (inner == "syslog") {
			t.Errorf("%s: dates are kept: %v", inner, in.DatesNeeded())
		}
	}
}

// TestKeyFile: hashes need a key that not everyone can read, and what was made with
// another key is not made again.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	c := DefaultInputConfig()
	c.Format, c.RedactKeyFile, c.Redact = record.TXT, path, []rules.Redaction{{Match: "x", With: rules.Hash}}
	f := func(want string) {
		t.Helper()
		for _, err := range []error{c.CheckRules(), func() error { _, err := c.NewRules(); return err }()} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	f("redact_key_file: there is no file")
	write := func(key string, mode os.FileMode) {
		must(t, os.WriteFile(path, []byte(key), mode))
		must(t, os.Chmod(path, mode))
	}
	write("sixteen bytes or more\n", 0o644)
	f("can be read or written by everyone (mode 0644)")
	write("short\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 0o640)
	f("has 5 bytes; want at least 16")
	write("sixteen bytes or more\n", 0o640)
	f("")
	shapingOf := func() uint64 {
		in, err := Compile(Input{InputConfig: c})
		must(t, err)
		return in.Shaping
	}
	one := shapingOf()
	write("sixteen bytes or less\n", 0o600)
	two := shapingOf()
	if one == two || one&3 != record.Reshaped|record.Withheld || two&3 != one&3 {
		t.Errorf("shaping %x, and %x with another key", one, two)
	}
	c.RedactKeyFile = ""
	f("redact_key_file: missing")
}

// TestBadPatterns: patterns that cannot be are refused with the input's name.
func TestBadPatterns(t *testing.T) {
	f := func(paths, exclude []string, want string) {
		t.Helper()
		in := Input{InputConfig: DefaultInputConfig()}
		in.Name, in.Paths, in.Exclude, in.Format = "app", paths, exclude, record.TXT
		_, err := Compile(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q %q: err is %v; want %q", paths, exclude, err, want)
		}
	}
	f([]string{"/a/[.log"}, nil, `input app: path "/a/[.log"`)
	f([]string{"/a/{b,c/d}.log"}, nil, "a slash between braces")
	f(nil, []string{"["}, `exclude "["`)
}

// TestMarkAndUnits: the mark of another encoding is an error that says what to do, and no text is
// cut within a character.
func TestMarkAndUnits(t *testing.T) {
	f := func(encoding, head string, want error, text string, whole int) {
		t.Helper()
		c := DefaultInputConfig()
		c.Name, c.Format, c.Encoding = "in", record.TXT, encoding
		in, err := Compile(Input{InputConfig: c})
		must(t, err)
		err = in.ForeignMark([]byte(head))
		var got *MarkError
		if errors.As(err, &got); (err == nil) != (want == nil) || got != nil && (got.Error() != want.Error() || !strings.Contains(got.Fix(), got.Is.String())) {
			t.Errorf("%s: mark %q is %v, want %v", encoding, head, err, want)
		}
		if n := in.WholeUnits([]byte(text)); n != whole {
			t.Errorf("%s: %q has %d bytes of whole characters, want %d", encoding, text, n, whole)
		}
	}
	f("utf-8", "\xef\xbb\xbf", nil, "a\xe2\x82", 1)
	f("utf-8", "\xff\xfea", &MarkError{format.UTF16LE}, "a€", 4)
	f("utf-16le", "\xff\xfea", nil, "a\x00b", 2)
	f("utf-16be", "\xff\xfea", &MarkError{format.UTF16LE}, "\x00a\xd8\x3d", 2)
	f("latin1", "abc", nil, "\xe2", 1)
}
