// Package version names what the program was built from: its release, or the commit of
// a checkout.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"
)

// These are set where packages are built (-ldflags "-X kusto-agent/internal/version.release=…").
// A checkout tells its commit by itself.
var (
	release = ""
	commit  = ""
	date    = "" // of the commit, in RFC 3339
)

// Text is the release; of another build "devel", with the commit where it is known.
func Text() string { return Of().Version }

// Build is what a binary knows of where it comes from. What it does not know is empty.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`     // of the commit, in RFC 3339: two builds of one commit are the same
	Modified bool   `json:"modified,omitempty"` // the checkout had changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Of returns what this binary was built from: the values that the release build set, or else the
// commit that Go recorded in a checkout. Then the version is "devel" with the commit.
func Of() Build {
	b := Build{Version: release, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if release != "" {
		return b
	}
	b.Version = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if len(b.Commit) >= 12 {
		b.Version += "-" + b.Commit[:12]
	}
	return b
}

// Write prints the build for people, in lines: the version, the commit and its date if they are
// known, and the Go version with the platform.
func (b Build) Write(out io.Writer) error {
	text := fmt.Sprintln("kusto-agent", b.Version)
	if b.Commit != "" {
		changes := ""
		if b.Modified {
			changes = ", with changes"
		}
		text += fmt.Sprintf("commit %s%s\n", b.Commit, changes)
	}
	if b.Date != "" {
		text += fmt.Sprintln("date", b.Date)
	}
	text += fmt.Sprintln(b.Go, b.Platform)
	_, err := io.WriteString(out, text)
	return err
}

// Time returns the time of the commit; nil if it is not known.
func (b Build) Time() *time.Time {
	t, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return nil
	}
	return &t
}
