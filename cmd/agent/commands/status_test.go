package commands

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// TestWhereStatusAsks: where no agent answers, the error says where one was asked and, if the
// configuration does not say where it listens, why.
func TestWhereStatusAsks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(w watched, says ...string) {
		t.Helper()
		_, err := w.fetch(t.Context())
		var ended *exit.Error
		if !errors.As(err, &ended) || ended.Code != exit.Unreachable {
			t.Fatalf("%+v: %v", w, err)
		}
		for _, want := range says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want %s", w, err, want)
			}
		}
	}
	off := write("off.yaml", "cluster: http://127.0.0.1:1\ndatabase: L\nauth: {method: none}\nstate_dir: "+dir+"/state\n"+
		"telemetry: {listen: \"\"}\ninputs: [{paths: [/none/*.log], table: T}]\n")
	f(watched{path: off, named: true}, "no agent answers in "+dir+"/state")
	if c, err := net.Dial("tcp", telemetry.DefaultConfig().Listen); err == nil {
		c.Close()
		t.Skip("an agent listens at the default address")
	}
	f(watched{path: filepath.Join(dir, "none.yaml"), named: true}, "it was asked there, the default", "none.yaml", "no such file")
	f(watched{path: write("bad.yaml", "x: 1\n")}, "it was asked there, the default", "bad.yaml:1:1", "unknown key")
	f(watched{path: filepath.Join(dir, "none.yaml")}, "is it running")
}

// TestAgentEndsBeforeItAnswers: an agent that takes a request and ends counts as one that does not
// answer.
func TestAgentEndsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, telemetry.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // ended by the listener, which the test closes
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			c.Close()
		}
	}()
	for range 100 { // the connection is closed before the request is written, while it is, or after that
		_, err = telemetry.FetchFiles(t.Context(), dir, nil, false)
		var ended *exit.Error
		if err = askError(err, dir); !errors.As(err, &ended) || ended.Code != exit.Unreachable || !strings.Contains(err.Error(), "before it answered") {
			t.Fatalf("got %v", err)
		}
	}
}

// TestStatusOfAddress: with --address the configuration that is named gives the token, and what an
// agent answers is not told as if none ran.
func TestStatusOfAddress(t *testing.T) {
	t.Parallel()
	const token = "zq-0123456789abcdef0123456789abcdef"
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer agent.Close()
	closed := httptest.NewUnstartedServer(http.NotFoundHandler())
	closed.Config.ErrorLog = log.New(io.Discard, "", 0)
	closed.StartTLS()
	defer closed.Close()
	dir := t.TempDir()
	text := "cluster: http://127.0.0.1:1\ndatabase: L\nauth: {method: none}\nstate_dir: " + dir + "/state\n" +
		"telemetry: {token_file: " + dir + "/token}\ninputs: [{paths: [/none/*.log], table: T}]\n"
	for name, text := range map[string]string{"token": token + "\n", "agent.yaml": text, "bad.yaml": "x: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(code int, says, addr, config string) {
		t.Helper()
		w := watched{addr: addr, path: filepath.Join(dir, config), named: config != ""}
		_, err := w.fetch(t.Context())
		var ended *exit.Error
		switch {
		case code == 0 && err == nil:
		case !errors.As(err, &ended) || ended.Code != code || !strings.Contains(err.Error(), says):
			t.Errorf("%s %s: %v; want %d, %s", addr, config, err, code, says)
		case strings.Contains(err.Error(), "is it running"):
			t.Errorf("%s %s: %v", addr, config, err)
		}
	}
	addr := strings.TrimPrefix(agent.URL, "http://")
	f(0, "", addr, "agent.yaml")
	f(exit.Refused, "it wants the token of its telemetry.token_file; name its configuration with --config", addr, "")
	f(exit.Config, "unknown key", addr, "bad.yaml")
	f(exit.Usage, "--address: telemetry.listen: ", "192.0.2.1:5878", "agent.yaml")
	f(exit.Unreachable, "answered 400 Bad Request; if telemetry.tls is set there, name its configuration", strings.TrimPrefix(closed.URL, "https://"), "")
}

// TestOther: an agent is another one only if its file is known to be another: one of an earlier version
// that was started with a relative path does not say which folder that begins in.
func TestOther(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a.yaml", "b.yaml"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link("a.yaml", "same.yaml"); err != nil {
		t.Fatal(err)
	}
	asked := watched{path: "a.yaml"}
	for file, want := range map[string]bool{"a.yaml": false, "b.yaml": false, "conf/a.yaml": false, dir + "/a.yaml": false, dir + "/same.yaml": false, dir + "/b.yaml": true, dir + "/none.yaml": true} {
		if got := asked.other(file); got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
}
