package config

import (
	"gopkg.in/yaml.v3"

	"kusto-agent/batcher"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/tail"
)

// document is a main file: the keys of its top level, as they are written.
// Sections kept as nodes are read when what they build on is known.
type document struct {
	Cluster  string `yaml:"cluster"`
	Database string `yaml:"database"`
	General  `yaml:",inline"`

	Auth     credential.Config     `yaml:"auth"`
	Inputs   *yaml.Node            `yaml:"inputs"`
	Clusters map[string]clusterDoc `yaml:"clusters"`

	Batch    batcher.Config `yaml:"batch"`
	Sections `yaml:",inline"`
	Include  []string `yaml:"include"`
}

// clusterDoc is one of clusters, as it is written.
type clusterDoc struct {
	URL      string             `yaml:"url"`
	Database string             `yaml:"database"`
	Auth     *credential.Config `yaml:"auth"` // nil: that of the top level
}

// includedDoc is an included file.
type includedDoc struct {
	Inputs *yaml.Node `yaml:"inputs"`
}

// defaultDocument returns the values of a main file that sets nothing.
func defaultDocument() document {
	c := DefaultConfig()
	return document{General: c.General, Auth: credential.DefaultConfig(), Batch: c.Batch, Sections: c.Sections}
}

// defaultInput is what holds for an input where no file says anything.
func defaultInput() Input {
	return Input{InputConfig: tail.DefaultInputConfig(), Batch: batcher.DefaultConfig()}
}
