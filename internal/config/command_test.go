package config

import "testing"

// TestArgument: commands name the configuration unless it is the default one, as one word.
func TestArgument(t *testing.T) {
	for path, want := range map[string]string{
		DefaultPath: "", "/srv/agent.yaml": " --config /srv/agent.yaml", "/srv/my agent's.yaml": ` --config '/srv/my agent'\''s.yaml'`,
	} {
		if got := (&Config{Files: []string{path, "/srv/conf.d/a.yaml"}}).Argument(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := new(Config).Argument(); got != "" {
		t.Errorf("without a file: %q", got)
	}
}
