package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"kusto-agent/internal/record"
)

// NewLogger returns a logger that writes to w in the configured format. auto is text on a terminal
// and in the systemd journal, where each line begins with its priority and has no time; anywhere
// else it is JSON. Unprintable characters are escaped, so that a file name can neither forge a line
// nor steer a terminal.
func NewLogger(cfg LogConfig, w io.Writer) *slog.Logger {
	f, _ := w.(*os.File)
	return formOf(cfg, f)(w, Level(cfg))
}

// form returns a logger whose lines look in one way. It writes them to w, each with one Write, from
// level up; level may change while the logger is used.
type form func(w io.Writer, level slog.Leveler) *slog.Logger

// formOf returns how log lines look that go to the file f, by the configuration and by what f is:
// the systemd journal, a terminal, or anything else. f is nil if the log goes to no file.
func formOf(cfg LogConfig, f *os.File) form {
	switch {
	case f != nil && cfg.Format != "json" && isJournal(f):
		return asJournal
	case cfg.Format == "text", cfg.Format != "json" && f != nil && term.IsTerminal(int(f.Fd())):
		return asText
	}
	return asJSON
}

func asJournal(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(journal{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
}

func asText(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

func asJSON(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(escaper{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: quoteBytes}))
}

// quoteBytes changes a log attribute for JSON; it is for slog.HandlerOptions.ReplaceAttr. A
// duration becomes text, since slog would write nanoseconds. A string or error that is not UTF-8 is
// quoted, since JSON would replace its bytes, and a file name would become useless.
func quoteBytes(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(record.Spell(v))
	case error:
		a.Value = slog.StringValue(record.Spell(v.Error()))
	case time.Duration:
		a.Value = slog.StringValue(v.Round(time.Millisecond).String())
	}
	return a
}

// Level returns the configured level as slog has it; info if it is not valid.
func Level(cfg LogConfig) slog.Level {
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// isJournal reports whether f is connected to the systemd journal. JOURNAL_STREAM names the device
// and inode of that connection. Children inherit the variable even if their stderr goes elsewhere,
// so it is compared with f.
func isJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// journal takes lines of a text handler that begin with their level, and writes each, with one Write,
// as the systemd journal reads it: it begins with its priority, as sd-daemon(3) has it, such as <6>.
type journal struct{ w io.Writer }

// Write writes one line, with its priority in the place of its level.
func (j journal) Write(line []byte) (int, error) {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	var level slog.Level
	if err := level.UnmarshalText(bytes.TrimPrefix(first, []byte(slog.LevelKey+"="))); err != nil {
		return 0, err
	}
	if _, err := j.w.Write(append([]byte(priority(level)), rest...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// withoutTime removes the time of a log line, which the journal keeps itself; it is for
// slog.HandlerOptions.ReplaceAttr. An attribute of a message that has the same key stays if it has
// another type or is in a group.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.Attr{}
	}
	return a
}

// priority returns the prefix with which the systemd journal recognizes the level of a line.
func priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	case level >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

// escaper writes JSON with every unprintable character escaped. The JSON handler makes
// one Write per line.
type escaper struct{ w io.Writer }

// Write writes one line with unprintable characters escaped. It reports the length of p, not of
// what was written.
func (e escaper) Write(p []byte) (int, error) {
	if _, err := e.w.Write(EscapeJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
