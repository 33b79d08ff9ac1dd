package console

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// History is what was typed before, in this session and others. It is kept in a
// file that its owner alone can read, a JSON string a line. What looks as if it
// held a secret is never written there.
type History struct {
	path string // empty: it is not kept
	all  []string
}

// mostKept is how many statements are kept at least.
const mostKept = 1000

// DefaultHistory returns the path of the user's history file: below $XDG_STATE_HOME if that is an
// absolute path, otherwise below ~/.local/state; "" if the user has no home.
func DefaultHistory() string {
	home, _ := os.UserHomeDir()
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "kusto-agent", "history")
}

// OpenHistory reads the history file at path; "" means a history that is not saved. A long file is
// shortened. The History works after an error too, but may not be saved.
func OpenHistory(path string) (*History, error) {
	h := new(History)
	if path == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h, fmt.Errorf("keep the history: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("read the history: %w", err)
	}
	h.path = path
	for line := range bytes.Lines(content) {
		var text string
		if json.Unmarshal(line, &text) == nil { // damaged lines are left out
			h.all = append(h.all, text)
		}
	}
	if len(h.all) > 2*mostKept {
		h.all = slices.Clone(h.all[len(h.all)-mostKept:])
		return h, h.rewrite()
	}
	return h, nil
}

// rewrite replaces the history file with one that has only the entries in memory. After an error
// the old file is still there.
func (h *History) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history-*") // its mode is 0600
	if err != nil {
		return fmt.Errorf("shorten the history: %w", err)
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, text := range h.all {
		err = cmp.Or(err, enc.Encode(text))
	}
	err = cmp.Or(err, w.Flush(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		return fmt.Errorf("shorten the history: %w", err)
	}
	return nil
}

// secret finds what is likely to be one: a string that KQL hides from logs, and
// values that go by the usual names.
var secret = regexp.MustCompile(`(?i)(?:^|\W)h@?["'` + "`" + `~]|(?:account|app|application|shared|access)[ _]?key["']?\s*[=:]|\b(?:password|pwd|secret|token|sig|bearer)["']?\s*[=:]\s*[^=\s]`)

// Write adds a statement to the history, unless it is empty or the same as the last, and appends it
// to the file, unless it looks as if it has a secret. It returns the length of the history, as the
// library readline wants it. After an error nothing more is written to the file.
func (h *History) Write(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" || len(h.all) > 0 && h.all[len(h.all)-1] == text {
		return len(h.all), nil
	}
	h.all = append(h.all, text)
	if h.path == "" || secret.MatchString(text) {
		return len(h.all), nil
	}
	line, err := json.Marshal(text)
	if err != nil {
		return len(h.all), err
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		h.path = "" // so the error comes once
		return len(h.all), fmt.Errorf("keep the history: %w", err)
	}
	return len(h.all), nil
}

// GetLine returns statement i of the history, counted from 0, the oldest first. It is for the
// library readline.
func (h *History) GetLine(i int) (string, error) {
	if i < 0 || i >= len(h.all) {
		return "", errors.New("the history is not so long")
	}
	return h.all[i], nil
}

// Len is how many there are.
func (h *History) Len() int { return len(h.all) }

// Dump is all of them.
func (h *History) Dump() any { return h.all }
