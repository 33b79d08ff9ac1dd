// What a dashboard may be, by Grafana's own types. The test writes ours below, as a literal,
// so that a key that there is not is an error as well as a value of another type.
import type { Dashboard, DataSourceRef, Panel, RowPanel } from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
import type { FieldConfig, Options } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// Plain is a type as JSON has it: with the values of enums instead of their names.
type Plain<T> = T extends string ? `${T}` : T extends (infer E)[] ? Plain<E>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

// The query is a type of the data source's plugin, which has no package of types alone.
type Query = { refId: string; datasource: DataSourceRef; expr: string; legendFormat: string };
type Defaults = Omit<NonNullable<Panel['fieldConfig']>['defaults'], 'custom'> & { custom?: FieldConfig };
type Graph = Omit<Panel, 'type' | 'options' | 'targets' | 'fieldConfig'> & {
  type: 'timeseries'; options: Options; targets: Query[]; fieldConfig: { defaults: Defaults; overrides: [] };
};
type Board = Plain<Omit<Dashboard, 'panels'> & { panels: (Graph | RowPanel)[] }>;

const empty = { schemaVersion: 39, panels: [] } satisfies Board;
// @ts-expect-error: a key that there is not
({ ...empty, titel: 'a' }) satisfies Board;
// @ts-expect-error: a legend that there is not
({ displayMode: 'lines', placement: 'bottom', showLegend: true, calcs: [] }) satisfies Plain<Options['legend']>;
// @ts-expect-error: a variable that is none
({ name: 'a', type: 'question' }) satisfies NonNullable<NonNullable<Board['templating']>['list']>[number];

