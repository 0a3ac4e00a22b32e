// All metrics of a run.

import { useState } from "preact/hooks";
import type { Run } from "../api";
import { figures } from "../format";

export function Figures({ run }: { run: Run }) {
  const [filter, setFilter] = useState("");
  const rows = run.metrics.filter((it) => `${it[0]} ${it[1]}`.includes(filter));
  return (
    <section class="card" data-view="figures">
      <header>
        <h2>Metrics</h2>
        <label>
          Filter <input type="search" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
        <span class="note">
          {rows.length} of {run.metrics.length}
        </span>
      </header>
      <div class="scroll" tabIndex={0} role="group" aria-label="Metrics">
        <table class="data">
          <thead>
            <tr>
              <th scope="col">Scope</th>
              <th scope="col">Metric</th>
              <th scope="col" class="number">Value</th>
              <th scope="col">Unit</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, 1000).map(([scope, metric, unit, value]) => (
              <tr key={`${scope} ${metric}`}>
                <th scope="row">{scope}</th>
                <td>{metric}</td>
                <td class="number" data-metric={`${scope} ${metric}`} title={String(value)}>
                  {value === null ? "–" : figures(value)}
                </td>
                <td>{unit}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > 1000 && <p class="note">1000 of {rows.length} are shown; the filter finds the others.</p>}
    </section>
  );
}
