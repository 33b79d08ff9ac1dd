package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
)

const nasty = "a\x1b[2J\nlevel=ERROR msg=forged\x7f\u009b1m\u202egpj\U000e0001é"

func TestNoFormLetsControlCharactersThrough(t *testing.T) {
	f := func(format string) string {
		t.Helper()
		var b strings.Builder
		NewLogger(LogConfig{Format: format}, &b).With("file", nasty).WithGroup("g").
			Warn(nasty, "err", errors.New(nasty), nasty, []byte(nasty))
		line, rest, _ := strings.Cut(b.String(), "\n")
		if rest != "" || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", format, b.String())
		}
		return line
	}
	f("text")
	var got struct{ File string }
	if err := json.Unmarshal([]byte(f("json")), &got); err != nil || got.File != nasty {
		t.Errorf("the file is %q, %v", got.File, err)
	}
	f("auto")
}

// A name that is not UTF-8 is told so that it can be told from any other.
func TestBytesThatAreNoText(t *testing.T) {
	f := func(format string) (got struct{ File, Err, Sound string }) {
		t.Helper()
		var b strings.Builder
		NewLogger(LogConfig{Format: format}, &b).Warn("m", "file", "a\xff\xfe\n.log", "err", errors.New("open a\xff"), "sound", "ü")
		if !strings.Contains(b.String(), `a\\xff`) && !strings.Contains(b.String(), `a\xff`) || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: %q", format, b.String())
		}
		_ = json.Unmarshal([]byte(b.String()), &got) // of the text form nothing
		return got
	}
	f("text")
	if got := f("json"); got.File != `"a\xff\xfe\n.log"` || got.Err != `"open a\xff"` || got.Sound != "ü" {
		t.Errorf("got %+v", got)
	}
}

// TestDurationsInWords: every form says how long in units.
func TestDurationsInWords(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b strings.Builder
		NewLogger(LogConfig{Format: format}, &b).Warn("m", "elapsed", 10*time.Second+time.Millisecond+7)
		if !strings.Contains(b.String(), "10.001") || strings.Contains(b.String(), "10001000007") {
			t.Errorf("%s: %s", format, b.String())
		}
	}
}

func TestLevelAndForm(t *testing.T) {
	var b strings.Builder
	NewLogger(LogConfig{Level: "warn", Format: "auto"}, &b).Info("not shown")
	NewLogger(LogConfig{Level: "warn", Format: "auto"}, &b).Error("shown", "attempt", 3)
	if !strings.HasPrefix(b.String(), "{") || !strings.Contains(b.String(), `"msg":"shown","attempt":3`) || strings.Contains(b.String(), "not shown") {
		t.Errorf("got %s", b.String())
	}
	b.Reset()
	var level slog.LevelVar
	log := formOf(LogConfig{Format: "text"}, nil)(&b, &level)
	log.Debug("not yet")
	level.Set(Level(LogConfig{Level: "debug"}))
	log.Debug("now")
	if !strings.Contains(b.String(), "level=DEBUG msg=now") || strings.Contains(b.String(), "not yet") {
		t.Errorf("got %s", b.String())
	}
	if Level(LogConfig{}) != slog.LevelInfo {
		t.Error("no level is not info")
	}
}

func TestTheJournalGetsPrioritiesAndNoTime(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino))

	log := NewLogger(LogConfig{Level: "debug", Format: "auto"}, f)
	log.Debug("one")
	log.With("table", "App").Info("two", "level", "of detail")
	log.WithGroup("g").Warn("three", "k", "v\nw")
	log.Error("four")
	t.Setenv("JOURNAL_STREAM", "1:1") // inherited, but stderr leads elsewhere
	NewLogger(LogConfig{Format: "auto"}, f).Info("five")

	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := "<7>msg=one\n<6>msg=two table=App level=\"of detail\"\n<4>msg=three g.k=\"v\\nw\"\n<3>msg=four\n{"
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
