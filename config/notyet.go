package config

import (
	"slices"

	"kusto-agent/kusto"
)

// gap is a setting that is part of the configuration and not built yet. It is
// accepted at its default, or off, and refused otherwise: a setting that is
// taken and does nothing would be worse than none.
type gap struct {
	key  string // below the section that the gap is of
	want string // what can be written in its place
	used any    // func(*Input) or func(*kusto.AuthConfig), to bool
}

// gaps is all that is not built yet, in one place: what gets built loses its row.
var gaps = []gap{
	{"method", "want client_secret, token_file, or none for a cluster on this machine", func(a *kusto.AuthConfig) bool { return slices.Contains(methodsNotYet, a.Method) }},
}

// methodsNotYet are the ways to sign in that are not built yet.
var methodsNotYet = []string{"certificate", "managed_identity", "workload_identity", "azure_cli"}

// refuseGaps reports every gap that section uses, and whether there was one.
func refuseGaps[T any](section *T, src *source, at string) (refused bool) {
	for _, g := range gaps {
		if used, ok := g.used.(func(*T) bool); ok && used(section) {
			src.bad(join(at, g.key), "not available yet; %s", g.want)
			refused = true
		}
	}
	return refused
}
