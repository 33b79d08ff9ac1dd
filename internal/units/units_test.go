package units

import (
	"errors"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	f := func(in string, want Size) {
		t.Helper()
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
		if back, err := ParseSize(got.String()); err != nil || back != got {
			t.Errorf("ParseSize(%q) = %d, %v; want %d back", got.String(), back, err, got)
		}
	}
	f("0", 0)
	f("1", 1)
	f("17B", 17)
	f("4MB", 4_000_000)
	f("4 MB", 4_000_000)
	f("4mb", 4_000_000)
	f("1kB", 1000)
	f("64KiB", 65536)
	f("1MiB", 1<<20)
	f("1.5GiB", 3<<29)
	f("10GiB", 10<<30)
	f("2TB", 2_000_000_000_000)
	f("1000000000000000KiB", 1024_000_000_000_000_000)
	f("9223372036854775807", 9223372036854775807)
}

func TestParseSizeRefuses(t *testing.T) {
	for _, in := range []string{"", "MB", "-1", "+1", "1e3", "4 parsecs", "1_000", "0x10", ".5GB", "5.GB", "1.0001kB",
		"9223372036854775808", "9000000000GiB", "99999999999.5TiB", "4MB ", " 4MB", "4  MB", "1.2.3"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d; want an error", in, got)
		}
	}
}

func TestSizeString(t *testing.T) {
	f := func(in Size, want string) {
		t.Helper()
		if got := in.String(); got != want {
			t.Errorf("Size(%d) = %q; want %q", int64(in), got, want)
		}
	}
	f(0, "0")
	f(999, "999")
	f(4*MB, "4MB")
	f(MiB, "1MiB")
	f(256*MiB, "256MiB")
	f(1500, "1500")
	f(1_000_000*KiB, "1024MB")
}

func TestParseDuration(t *testing.T) {
	f := func(in string, want time.Duration, text string) {
		t.Helper()
		got, err := ParseDuration(in)
		if err != nil || got.D() != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", in, got.D(), err, want)
		}
		if got.String() != text {
			t.Errorf("ParseDuration(%q).String() = %q; want %q", in, got.String(), text)
		}
		if back, err := ParseDuration(got.String()); err != nil || back != got {
			t.Errorf("ParseDuration(%q) = %v, %v; want it back", got.String(), back, err)
		}
	}
	f("0", 0, "0s")
	f("0s", 0, "0s")
	f("500ms", 500*time.Millisecond, "500ms")
	f("60s", time.Minute, "1m")
	f("1h30m", 90*time.Minute, "1h30m")
	f("24h", Day, "1d")
	f("7d", 7*Day, "7d")
	f("1d12h", 36*time.Hour, "1d12h")
	f("10m10s", 610*time.Second, "10m10s")
	f("1.5h", 90*time.Minute, "1h30m")
	f("20h0m10s", 20*time.Hour+10*time.Second, "20h0m10s")
}

func TestParseDurationRefuses(t *testing.T) {
	for _, in := range []string{"", "s", "d", "10", "-1s", "+1s", "1d-2h", "-1d", "1.5d", "2h1d", "1w", "1 h", "106752d", "99999999999999999999d", "1d1"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v; want an error", in, got)
		}
	}
}

func TestOneOf(t *testing.T) {
	if err := OneOf("watch", "poll", "auto", "poll"); err != nil {
		t.Error(err)
	}
	err := OneOf("level", "loud", "debug", "info", "warn")
	var key *KeyError
	if !errors.As(err, &key) || key.Key != "level" || key.Problem != `"loud" is not known here; want debug, info or warn` {
		t.Errorf("got %v", err)
	}
}
