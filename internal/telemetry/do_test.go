package telemetry

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestDo: what is asked for is done, one at a time, and errors come back as they are.
func TestDo(t *testing.T) {
	t.Parallel()
	type twice struct {
		N int `json:"n"`
	}
	dir := t.TempDir()
	c := controlIn(t, dir, nil)
	c.await(t)
	if !Answers(dir) {
		t.Error("nobody answers")
	}
	var out twice
	if err := Do(t.Context(), dir, "double/it", twice{4}, &out); !errors.Is(err, ErrOlder) {
		t.Errorf("an agent that cannot do it says %v", err)
	}
	c.stop()
	if Answers(dir) {
		t.Error("somebody answers after the end")
	}

	c = controlDoing(t, dir, map[string]Doing{"double/it": Do1(func(_ context.Context, in twice) (*twice, error) {
		if in.N < 0 {
			return nil, errors.New("less than\nnothing")
		}
		return &twice{2 * in.N}, nil
	})})
	c.await(t)
	if err := Do(t.Context(), dir, "double/it", twice{4}, &out); err != nil || out.N != 8 {
		t.Errorf("%d: %v", out.N, err)
	}
	if err := Do(t.Context(), dir, "double/it", twice{-1}, &out); err == nil || !strings.Contains(err.Error(), "less than") {
		t.Errorf("it fails with %v", err)
	}
	if err := Do(t.Context(), dir, "double/it", struct{ N, Later int }{1, 2}, &out); err == nil || !strings.Contains(err.Error(), "Later") {
		t.Errorf("what a later version asks for is done by half: %v", err)
	}
	if err := Do(t.Context(), t.TempDir(), "double/it", twice{1}, &out); err == nil {
		t.Error("nobody is there, and it was done")
	}
}
