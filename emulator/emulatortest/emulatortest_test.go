package emulatortest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/emulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const target = "/v1/rest/ingest/d/t?streamFormat=TXT"

func TestStart(t *testing.T) {
	s := Start(t, emulator.Options{})
	resp, err := http.Post(s.URL()+target, "", strings.NewReader("x\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp.Body.Close()
	if resp.StatusCode != 200 || s.RowCount("d", "t") != 1 {
		t.Errorf("got %d, %d rows", resp.StatusCode, s.RowCount("d", "t"))
	}
}

func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := emulator.New(emulator.Options{})
		client := http.Client{Transport: Transport(s), Timeout: 30 * time.Second}
		f := func(status int, wantErr, wantReadErr error) {
			t.Helper()
			resp, err := client.Post("https://cluster.example"+target, "", strings.NewReader("x\n"))
			if !errors.Is(err, wantErr) {
				t.Errorf("got %v, want %v", err, wantErr)
			}
			if err != nil {
				return
			}
			_, err = io.ReadAll(resp.Body)
			if resp.StatusCode != status || !errors.Is(err, wantReadErr) {
				t.Errorf("got %d %v", resp.StatusCode, err)
			}
		}
		f(200, nil, nil)
		s.FailNext(1, 503)
		f(503, nil, nil)
		s.Fail(emulator.Fault{Times: 1, Reset: true})
		f(0, syscall.ECONNRESET, nil)
		s.Fail(emulator.Fault{Times: 1, Status: 200, Truncate: true})
		f(200, nil, io.ErrUnexpectedEOF)
		s.Fail(emulator.Fault{Times: 1, Hang: true})
		f(0, context.DeadlineExceeded, nil)
		if got := s.RowCount("d", "t"); got != 1 {
			t.Errorf("%d rows", got)
		}
	})
}
