package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
)

// Diff is in what one configuration differs from another, by names and keys and
// without values: some are secret.
type Diff struct {
	Added, Changed, Removed []string // inputs
	Clusters                []string // that are new, changed or gone
	Settings                []string // other keys that hold at once
	Restart                 []string // keys that hold after a restart
}

// IsEmpty reports whether there is no difference.
func (d Diff) IsEmpty() bool { return reflect.DeepEqual(d, Diff{}) }

// fixed are the keys that cannot be changed while the agent runs, with a pointer to the
// value of each.
var fixed = []struct {
	key string
	of  func(*Config) any
}{
	{"state_dir", func(c *Config) any { return &c.StateDir }},
	{"spool.dir", func(c *Config) any { return &c.Spool.Dir }},
	{"telemetry.listen", func(c *Config) any { return &c.Telemetry.Listen }},
	{"telemetry.token_file", func(c *Config) any { return &c.Telemetry.TokenFile }},
	{"telemetry.tls", func(c *Config) any { return &c.Telemetry.TLS }},
	{"telemetry.allow_plaintext", func(c *Config) any { return &c.Telemetry.AllowPlaintext }},
	{"telemetry.log.format", func(c *Config) any { return &c.Telemetry.Log.Format }},
}

// Reload returns the configuration that applies after an agent that runs with old has loaded another
// one: loaded, except for keys that need a restart, which keep their old values. The Diff says what
// that changes. Neither argument is changed.
func Reload(old, loaded *Config) (*Config, Diff) {
	var d Diff
	next := *loaded
	for _, f := range fixed {
		was, is := reflect.ValueOf(f.of(old)).Elem(), reflect.ValueOf(f.of(loaded)).Elem()
		reflect.ValueOf(f.of(&next)).Elem().Set(was)
		if !was.Equal(is) && !(f.key == "spool.dir" && hasDefaultSpool(old) && hasDefaultSpool(loaded)) {
			d.Restart = append(d.Restart, f.key)
		}
	}
	d.inputs(old.Inputs, next.Inputs)
	d.clusters(old.Clusters, next.Clusters)
	d.Settings = append(keysThatDiffer("", reflect.ValueOf(old.General), reflect.ValueOf(next.General)),
		keysThatDiffer("", reflect.ValueOf(old.Sections), reflect.ValueOf(next.Sections))...)
	return &next, d
}

// hasDefaultSpool reports whether the spool is in its default folder below state_dir.
func hasDefaultSpool(c *Config) bool { return c.Spool.Dir == filepath.Join(c.StateDir, "spool") }

// inputs adds the names of inputs that were added, changed or removed between the configurations old
// and now.
func (d *Diff) inputs(old, now []Input) {
	was := make(map[string]*Input, len(old))
	for i := range old {
		was[old[i].Name] = &old[i]
	}
	for i := range now {
		name := now[i].Name
		switch o := was[name]; {
		case o == nil:
			d.Added = append(d.Added, name)
		case !sameInput(*o, now[i]):
			d.Changed = append(d.Changed, name)
		}
		delete(was, name)
	}
	for i := range old {
		if was[old[i].Name] != nil {
			d.Removed = append(d.Removed, old[i].Name)
		}
	}
}

// sameInput reports whether two inputs do the same. The name of the cluster does not count, only its
// URL.
func sameInput(a, b Input) bool {
	a.Cluster, b.Cluster = "", ""
	return reflect.DeepEqual(a, b)
}

// clusters sets d.Clusters to the names of clusters that were added or removed, or whose URL or
// credentials changed, between the configurations old and now.
func (d *Diff) clusters(old, now map[string]Cluster) {
	names := map[string]bool{}
	for name, c := range now {
		if was, known := old[name]; !known || was.URL != c.URL || was.Auth != c.Auth {
			names[name] = true
		}
	}
	for name := range old {
		if _, known := now[name]; !known {
			names[name] = true
		}
	}
	d.Clusters = slices.Sorted(maps.Keys(names))
}

// keysThatDiffer returns the paths of the keys whose values differ between a and b, two values of
// one type, in the order of the fields. key is the path of the values themselves.
func keysThatDiffer(key string, a, b reflect.Value) (keys []string) {
	if a.Kind() != reflect.Struct {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			keys = append(keys, key)
		}
		return keys
	}
	for i := range a.NumField() {
		name, _ := keyOf(a.Type().Field(i))
		keys = append(keys, keysThatDiffer(join(key, name), a.Field(i), b.Field(i))...)
	}
	return keys
}
