package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"kusto-agent/emulator"
)

const (
	queryPage = "../../docs/query.md"
	pageURL   = "http://127.0.0.1:8080" // of the endpoint, on the page
)

// shown is a command of a page, and what is printed below it.
type shown struct {
	line    int
	command string
	prints  string
}

// consoleBlocks are the commands of a page in blocks of the language console. With
// printed, what is below them is replaced by what that says; the page is returned.
func consoleBlocks(page string, printed func(i int) string) (all []shown, now string) {
	var out strings.Builder
	inside, more := false, false
	flush := func() {
		if inside && len(all) > 0 && printed != nil && more {
			out.WriteString(printed(len(all) - 1))
		}
	}
	n := 0
	for line := range strings.Lines(page) {
		n++
		switch {
		case strings.HasPrefix(line, "```"):
			flush()
			inside, more = line == "```console\n", false
		case inside && strings.HasPrefix(line, "$ "):
			flush()
			all, more = append(all, shown{line: n, command: line[2:]}), true
		case inside && line == ">\n":
			all[len(all)-1].command += "\n"
		case inside && strings.HasPrefix(line, "> "):
			all[len(all)-1].command += line[2:]
		case inside:
			all[len(all)-1].prints += line
			if printed != nil {
				continue
			}
		}
		out.WriteString(line)
	}
	return all, out.String()
}

// TestQueryPage: every command of the page works against the emulator, with and
// without TLS, and prints on a terminal what the page shows.
func TestQueryPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(queryPage)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := consoleBlocks(string(raw), nil)
	ways := []string{"http", "https"}
	if testing.Short() {
		ways = ways[1:]
	}
	for _, name := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			dir, ca := t.TempDir(), ""
			var flags []string
			if name == "https" {
				ca = filepath.Join(dir, "ca.pem")
				flags = []string{"--tls", "--tls-ca", ca}
			}
			got := runPage(t, dir, s.emulator(flags...), ca, all, false)
			for i, c := range all {
				if got[i] != c.prints && (name == "https" || os.Getenv("UPDATE") == "") {
					t.Errorf("%s:%d: %s prints\n%s\nthe page shows\n%s", queryPage, c.line, c.command, got[i], c.prints)
				}
			}
			picture, err := os.ReadFile(filepath.Join(dir, "storms.svg"))
			if err != nil || !strings.HasPrefix(string(picture), "<svg") {
				t.Errorf("the picture is %.100q, %v", picture, err)
			}
			if name == "http" && os.Getenv("UPDATE") != "" {
				_, now := consoleBlocks(string(raw), func(i int) string { return got[i] })
				if err := os.WriteFile(queryPage, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// emulator starts the command emulator, as pages say, on a free port, and returns its URL.
func (s *site) emulator(flags ...string) (url string) {
	s.t.Helper()
	p := s.launch(append([]string{"emulator", "--listen", "127.0.0.1:0"}, flags...)...)
	return p.await(1, "emulator listening").text("url")
}

// runPage runs the commands in one shell, with stdout a terminal, and returns what
// each printed there, with words also what goes to stderr. The endpoint is that of url,
// with an authority unless ca is empty. A command that fails ends the test.
func runPage(t *testing.T, dir, url, ca string, all []shown, withWords bool) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "kusto-agent")
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 %s=1 exec '%s' \"$@\"\n", asProgram, readsStdin, exe)
	if err := os.WriteFile(bin, []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	const mark = "@@ next @@"
	here := strings.NewReplacer(pageURL, url, "/srv/", dir+"/srv/")
	if ca != "" {
		here = strings.NewReplacer("--cluster "+pageURL, "--cluster "+url+" --ca-file "+ca, "cluster: "+pageURL, "cluster: "+url+"\nsend: {tls: {ca_file: "+ca+"}}")
	}
	script := "set -e\n"
	for _, c := range all {
		script += "echo '" + mark + "'\n" + here.Replace(c.command)
	}
	tty, screen, err := pty.Open()
	if err == nil {
		err = pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var words strings.Builder
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, screen, &words
	if withWords {
		cmd.Stderr = screen
	}
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"), "NO_COLOR=1", "STATE_DIRECTORY=", "JOURNAL_STREAM=", "KUSTO_AGENT_LISTEN=127.0.0.1:0", "GORACE=atexit_sleep_ms=0")
	err = cmd.Start()
	screen.Close()
	if err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(5*deadline, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	text, err := io.ReadAll(tty)
	if err != nil && !errors.Is(err, syscall.EIO) { // as a terminal ends
		t.Fatal(err)
	}
	got := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), mark+"\n")[1:]
	if err := cmd.Wait(); err != nil || len(got) != len(all) {
		t.Fatalf("%v; %s says\n%s", err, all[max(len(got)-1, 0)].command, words.String())
	}
	return got
}
