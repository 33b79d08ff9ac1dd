package systemd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/nest"
)

// host is the machine in the nest, as its administrator sees it.
type host struct{ *testing.T }

const (
	service    = "kusto-agent"
	configPath = "/etc/kusto-agent/agent.yaml"
	dropIns    = "/etc/systemd/system/kusto-agent.service.d"
	credential = "/etc/credstore/kusto-agent.client-secret"
)

// sh runs commands in the checkout, with text to read, and wants no failure.
func (h *host) sh(script, input string) string {
	h.Helper()
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = "/nest/checkout"
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// systemctl wants no failure of it.
func (h *host) systemctl(args ...string) {
	h.Helper()
	h.sh("systemctl "+strings.Join(args, " "), "")
}

// show is a property of the service as systemd has it.
func (h *host) show(property string) string {
	h.Helper()
	return strings.TrimSpace(h.sh("systemctl show --value --property="+property+" "+service, ""))
}

func (h *host) number(property string) int {
	h.Helper()
	n, err := strconv.Atoi(h.show(property))
	if err != nil {
		h.Fatal(err)
	}
	return n
}

// properties wants each of them, given as NAME=VALUE.
func (h *host) properties(want ...string) {
	h.Helper()
	for _, w := range want {
		name, value, _ := strings.Cut(w, "=")
		if got := h.show(name); got != value {
			h.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// until waits for another process to bring about what it is to.
func (h *host) until(what string, done func() bool) {
	h.Helper()
	end := time.Now().Add(nest.Deadline)
	tick := time.NewTicker(nest.Look)
	defer tick.Stop()
	for !done() {
		if time.Now().After(end) {
			h.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

// untilRestarted waits until systemd has started the service once more by
// itself than it had, and it is ready.
func (h *host) untilRestarted(had int) {
	h.Helper()
	h.until("restart by systemd", func() bool { return h.number("NRestarts") > had && h.show("ActiveState") == "active" })
}

// log is what the run of the service said that it is in, or ended last.
func (h *host) log() string {
	h.Helper()
	h.sh("journalctl --sync", "")
	return h.sh("journalctl --no-pager --output=cat _SYSTEMD_INVOCATION_ID="+h.show("InvocationID"), "")
}

// get fetches from the endpoint or from the agent; empty: nobody answers yet.
func (h *host) get(url string) []byte {
	h.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.Fatalf("%s: %s %v\n%s", url, resp.Status, err, text)
	}
	return text
}

// status is the document of the agent, as far as it is looked at here.
type status struct {
	Routes []struct{ Hold struct{ Message, Fix string } }
	Config struct {
		Time  time.Time
		Error string
	}
}

func (h *host) status() (s status) {
	h.Helper()
	if text := h.get("http://127.0.0.1:5878/api/v1/status"); text != nil {
		if err := json.Unmarshal(text, &s); err != nil {
			h.Fatal(err)
		}
	}
	return s
}

// drop puts settings on top of those of the unit until the end of the part.
func (h *host) drop(settings string) {
	h.Helper()
	path := filepath.Join(dropIns, "test.conf")
	h.write(path, "[Service]\n"+settings)
	h.systemctl("daemon-reload")
	h.Cleanup(func() {
		h.remove(path)
		h.systemctl("daemon-reload")
		h.systemctl("restart", service)
	})
}

func (h *host) write(path, text string) {
	h.Helper()
	putFile(h.T, path, text)
}

func (h *host) read(path string) string {
	h.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	return string(text)
}

func (h *host) remove(path string) {
	h.Helper()
	if err := os.Remove(path); err != nil {
		h.Fatal(err)
	}
}

// owned gives a path a mode, and the group that reads logs.
func (h *host) owned(path, group string, mode os.FileMode) {
	h.Helper()
	g, err := user.LookupGroup(group)
	if err != nil {
		h.Fatal(err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err == nil {
		err = os.Chown(path, 0, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// process is a file of the main process of the service in /proc.
func (h *host) process(name string) string {
	h.Helper()
	return h.read(filepath.Join("/proc", h.show("MainPID"), name))
}

// signal goes to the main process of the service.
func (h *host) signal(sig syscall.Signal) {
	h.Helper()
	if err := syscall.Kill(h.number("MainPID"), sig); err != nil {
		h.Fatal(err)
	}
}

// logFile is one that a program of the machine writes, a record a line.
type logFile struct {
	h    *host
	name string // of the records
	file *os.File
	n    int // records written
}

// logs makes a file that group adm may read.
func (h *host) logs(path string) *logFile {
	h.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	h.owned(filepath.Dir(path), "adm", 0o750)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { f.Close() })
	h.owned(path, "adm", 0o640)
	return &logFile{h: h, name: h.Name() + " " + path, file: f}
}

func (f *logFile) write(n int) {
	f.h.Helper()
	for range n {
		if _, err := fmt.Fprintf(f.file, "{\"from\":%q,\"seq\":%d}\n", f.name, f.n); err != nil {
			f.h.Fatal(err)
		}
		f.n++
	}
}

// keepWriting writes until the returned function is called, which waits for it.
func (f *logFile) keepWriting() (stop func()) {
	told, done := make(chan struct{}), make(chan struct{})
	// Started here, ended and awaited by stop.
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-told:
				return
			case <-tick.C:
				f.write(20)
			}
		}
	}()
	return func() {
		close(told)
		<-done
	}
}

// stored counts how often each record was stored.
func (f *logFile) stored() map[int]int {
	f.h.Helper()
	found := make(map[int]int)
	for line := range strings.Lines(string(f.h.get("http://127.0.0.1:8080/rows?db=Logs&table=App&format=text"))) {
		var row struct {
			From string
			Seq  int
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			f.h.Fatal(err)
		}
		if row.From == f.name {
			found[row.Seq]++
		}
	}
	return found
}

// await waits until at least n records are stored.
func (f *logFile) await(n int) {
	f.h.Helper()
	f.h.until(fmt.Sprintf("%d records of %s stored", n, f.name), func() bool { return len(f.stored()) >= n })
}

// awaitAll waits until every record is stored, and returns how many are more
// than once.
func (f *logFile) awaitAll() (doubled int) {
	f.h.Helper()
	f.await(f.n)
	return f.doubled()
}

func (f *logFile) doubled() (n int) {
	f.h.Helper()
	for _, times := range f.stored() {
		if times > 1 {
			n++
		}
	}
	return n
}

// awaitOnce wants every record stored once.
func (f *logFile) awaitOnce() {
	f.h.Helper()
	if n := f.awaitAll(); n != 0 {
		f.h.Errorf("%d records of %s are stored more than once", n, f.name)
	}
}
