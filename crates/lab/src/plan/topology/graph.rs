//! A graph as networkx writes it: GraphML (`write_graphml`), node-link JSON (`node_link_data`), or a JSON list of edges
//! (`list(G.edges(data=True))`).
//!
//! A node may say its `role`, an edge its `rate` and `delay` in the words of experiment files, or as numbers: bit/s and
//! seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use datapath::units::{Duration, Rate};
use serde_json::Value;

use super::super::limits::{LINKS_MAX, NAME_MAX, NODES_MAX};
use super::super::links;
use super::super::names::is_name;
use super::super::network::Role;
use super::super::quantity;
use super::super::suggest;
use super::shapes::{Shape, ShapeLink, Tier};
use crate::input;

/// Bytes of a graph file.
const GRAPH_MAX: u64 = 64 << 20;

/// A graph as it is written, with a place (`line:column`, or a number) for each part.
#[derive(Default)]
struct RawGraph {
    directed: bool,
    nodes: Vec<RawNode>,
    edges: Vec<RawEdge>,
}

struct RawNode {
    place: String,
    id: String,
    data: BTreeMap<String, String>,
}

struct RawEdge {
    place: String,
    ends: [String; 2],
    data: BTreeMap<String, String>,
}

/// Reads the graph at `path`. Without a role, nodes with one link are hosts; with `hosts` all are
/// routers, and each has so many hosts `host-NAME-1` …. What edges call `cost` is what paths pay for them.
///
/// # Errors
/// What is wrong, with its place in the file.
pub fn read(path: &Path, hosts: usize, cost: Option<&str>) -> Result<Shape, String> {
    let name = path.display();
    let bytes = input::read(path, GRAPH_MAX).map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name}: this is not UTF-8 text"))?;
    let raw = if text.trim_start().starts_with('<') { graphml(&text) } else { node_link(&text) };
    let raw = raw.map_err(|why| format!("{name}:{why}"))?;
    shape(&raw, hosts, cost).map_err(|why| format!("{name}:{why}"))
}

/// GraphML: the names of its keys stand at the top of the file.
fn graphml(text: &str) -> Result<RawGraph, String> {
    let options = roxmltree::ParsingOptions { nodes_limit: XML_NODES_MAX, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options)
        .map_err(|error| format!("{}: {error}", error.pos()))?;
    let place =
        |node: &roxmltree::Node<'_, '_>| document.text_pos_at(node.range().start).to_string();
    let root = document.root_element();
    let is = |node: &roxmltree::Node<'_, '_>, name| node.tag_name().name() == name;
    let keys: BTreeMap<&str, &str> = root
        .children()
        .filter(|node| is(node, "key"))
        .filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?)))
        .collect();
    let graph = root.children().find(|node| is(node, "graph"));
    let graph = graph.ok_or_else(|| format!("{}: there is no <graph>", place(&root)))?;
    let mut raw = RawGraph {
        directed: graph.attribute("edgedefault") == Some("directed"),
        ..RawGraph::default()
    };
    for node in graph.children().filter(roxmltree::Node::is_element) {
        let wanted = |name: &str| {
            let found = node.attribute(name).map(str::to_owned);
            found.ok_or_else(|| format!("{}: \"{name}\" is missing", place(&node)))
        };
        let data = || {
            let rows = node.children().filter(|child| is(child, "data"));
            let row = |child: roxmltree::Node<'_, '_>| {
                let key = child.attribute("key")?;
                let name = keys.get(key).copied().unwrap_or(key);
                Some((name.to_owned(), child.text().unwrap_or_default().trim().to_owned()))
            };
            rows.filter_map(row).collect()
        };
        match node.tag_name().name() {
            "node" => {
                raw.nodes.push(RawNode { place: place(&node), id: wanted("id")?, data: data() });
            }
            "edge" => raw.edges.push(RawEdge {
                place: place(&node),
                ends: [wanted("source")?, wanted("target")?],
                data: data(),
            }),
            _ => {}
        }
    }
    Ok(raw)
}

/// So many parts an XML file may have: each node and edge takes a few.
const XML_NODES_MAX: u32 = 4_000_000;

/// JSON of `nodes` with `id` and of `links` (or `edges`) with `source` and `target`.
fn node_link(text: &str) -> Result<RawGraph, String> {
    let place = |error: &serde_json::Error| format!("{}:{}: {error}", error.line(), error.column());
    if !text.trim_start().starts_with(['{', '[']) {
        return Err(" this is neither GraphML nor JSON; write GraphML by networkx.write_graphml, \
            or JSON by json.dump of networkx.node_link_data"
            .into());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| place(&error))?;
    if let Some(edges) = value.as_array() {
        return edge_list(edges);
    }
    let nodes = value.get("nodes").and_then(Value::as_array);
    let edges = ["links", "edges"].iter().find_map(|key| value.get(*key)?.as_array());
    let (Some(nodes), Some(edges)) = (nodes, edges) else {
        return Err(" \"nodes\" or \"links\" (\"edges\") is missing; write the file with \
            networkx.node_link_data"
            .into());
    };
    let mut raw = RawGraph {
        directed: value.get("directed") == Some(&Value::Bool(true)),
        ..RawGraph::default()
    };
    for (number, node) in (1..).zip(nodes) {
        let place = format!(" node {number}");
        let id = word(node.get("id")).ok_or_else(|| format!("{place}: \"id\" is missing"))?;
        raw.nodes.push(RawNode { place, id, data: data(node) });
    }
    for (number, edge) in (1..).zip(edges) {
        let place = format!(" link {number}");
        let end = |key| word(edge.get(key)).ok_or_else(|| format!("{place}: \"{key}\" is missing"));
        let ends = [end("source")?, end("target")?];
        raw.edges.push(RawEdge { place, ends, data: data(edge) });
    }
    Ok(raw)
}

/// JSON of `[A, B, {"rate": …}]` for each edge; nodes in the order in which edges name them.
fn edge_list(edges: &[Value]) -> Result<RawGraph, String> {
    let mut raw = RawGraph::default();
    let mut known = BTreeSet::new();
    for (number, edge) in (1..).zip(edges) {
        let place = format!(" edge {number}");
        let end = |at: usize| {
            word(edge.get(at)).ok_or_else(|| format!("{place}: expected [A, B] or [A, B, {{…}}]"))
        };
        let ends = [end(0)?, end(1)?];
        for id in &ends {
            if known.insert(id.clone()) {
                let (place, data) = (place.clone(), BTreeMap::new());
                raw.nodes.push(RawNode { place, id: id.clone(), data });
            }
        }
        raw.edges.push(RawEdge { place, ends, data: edge.get(2).map(data).unwrap_or_default() });
    }
    Ok(raw)
}

/// A text or a number as a text.
fn word(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn data(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), word(Some(value))?))).collect()
}

fn shape(raw: &RawGraph, hosts: usize, cost: Option<&str>) -> Result<Shape, String> {
    if raw.directed {
        return Err(" the graph is directed; write the undirected one (G.to_undirected())".into());
    }
    let more = hosts.checked_mul(raw.nodes.len());
    let nodes = more.and_then(|more| more.checked_add(raw.nodes.len()));
    let links = more.and_then(|more| more.checked_add(raw.edges.len()));
    if nodes.is_none_or(|it| it > NODES_MAX) || links.is_none_or(|it| it > LINKS_MAX) {
        return Err(format!(" an experiment has at most {NODES_MAX} nodes and {LINKS_MAX} links"));
    }
    let mut index = BTreeMap::new();
    for (number, node) in raw.nodes.iter().enumerate() {
        check_name(&node.id).map_err(|why| format!("{}: {why}", node.place))?;
        if index.insert(node.id.as_str(), number).is_some() {
            return Err(format!("{}: another node is called \"{}\" too", node.place, node.id));
        }
    }
    let mut degrees = vec![0; raw.nodes.len()];
    let mut ends = Vec::new();
    for edge in &raw.edges {
        let end = |id: &String| {
            let found = index.get(id.as_str()).copied();
            found.ok_or_else(|| format!("{}: no node is called \"{id}\"", edge.place))
        };
        let two = [end(&edge.ends[0])?, end(&edge.ends[1])?];
        if two[0] == two[1] {
            return Err(format!("{}: a link must join two different nodes", edge.place));
        }
        for end in two {
            degrees[end] += 1;
        }
        ends.push(two);
    }
    let mut shape = Shape::default();
    for (node, degree) in raw.nodes.iter().zip(&degrees) {
        let role = match node.data.get("role").map(String::as_str) {
            Some("host") => Role::Host,
            Some("router") => Role::Router,
            Some(other) => {
                return Err(format!(
                    "{}: role \"{other}\" is neither \"host\" nor \"router\"",
                    node.place
                ));
            }
            None if hosts == 0 && *degree == 1 => Role::Host,
            None => Role::Router,
        };
        shape.node(node.id.clone(), role);
    }
    add_links(&mut shape, raw, &ends, cost)?;
    let routers: Vec<usize> =
        (0..raw.nodes.len()).filter(|&node| shape.nodes[node].1 == Role::Router).collect();
    for router in routers {
        let prefix = format!("host-{}", shape.nodes[router].0);
        shape.hosts(router, &prefix, hosts);
    }
    Ok(shape)
}

/// The edges, called `A-B`; further ones between the same two nodes `A-B-2`, `A-B-3`, ….
fn add_links(
    shape: &mut Shape,
    raw: &RawGraph,
    ends: &[[usize; 2]],
    cost: Option<&str>,
) -> Result<(), String> {
    if let Some(key) = cost.filter(|key| !raw.edges.iter().any(|edge| edge.data.contains_key(*key)))
    {
        let known = raw.edges.iter().flat_map(|edge| edge.data.keys().map(String::as_str));
        let known: BTreeSet<&str> = known.filter(|key| !NO_COSTS.contains(key)).collect();
        let help = suggest(key, known)
            .unwrap_or_else(|| "no edge has a number other than rate and delay".into());
        return Err(format!(" no edge has a \"{key}\" to be its cost; {help}"));
    }
    let mut named: BTreeMap<String, u32> = BTreeMap::new();
    for (edge, ends) in raw.edges.iter().zip(ends) {
        let fault = |why: String| format!("{}: {why}", edge.place);
        let name = format!("{}-{}", edge.ends[0], edge.ends[1]);
        let count = named.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name}-{count}") };
        check_name(&name).map_err(fault)?;
        let rate = edge.data.get("rate").map(|text| rate(text)).transpose().map_err(fault)?;
        let delay = edge.data.get("delay").map(|text| delay(text)).transpose().map_err(fault)?;
        let cost = cost.and_then(|key| edge.data.get(key));
        let cost = cost.map(|text| links::cost(text)).transpose().map_err(fault)?;
        let is_access = ends.iter().any(|end| shape.nodes[*end].1 == Role::Host);
        let tier = if is_access { Tier::Access } else { Tier::Fabric };
        shape.links.push(ShapeLink { name, ends: *ends, tier, rate, delay, cost });
    }
    Ok(())
}

/// What edges have besides costs.
const NO_COSTS: [&str; 5] = ["rate", "delay", "source", "target", "key"];

/// A rate in words, or as a number of bit/s.
fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<f64>() {
        Ok(bits) if (1.0..1e18).contains(&bits) => Ok(Rate::from_bits_per_sec(bits as u64)),
        Ok(_) => Err(format!("\"{text}\" is not a number of bit/s above zero")),
        Err(_) => quantity::rate(text),
    }
}

/// A delay in words, or as a number of seconds.
fn delay(text: &str) -> Result<Duration, String> {
    let delay = match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => {
            Duration::from_nanos((seconds * 1e9).round() as u64)
        }
        Ok(_) => return Err(format!("\"{text}\" is not a number of seconds, 0 or more")),
        Err(_) => quantity::time(text)?,
    };
    if delay > super::super::limits::TIME_MAX {
        Err("the delay is too long".into())
    } else {
        Ok(delay)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if !is_name(name) {
        return Err(format!(
            "\"{name}\" is not a valid name (letters, digits, \"-\", \"_\"); \
             networkx.relabel_nodes gives others"
        ));
    }
    if name.len() > NAME_MAX {
        return Err(format!("\"{name}\": a name may have at most {NAME_MAX} characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `networkx.write_graphml` makes of a path r1 – r2 with a host at each end.
    const GRAPHML: &str = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d1" for="edge" attr.name="delay" attr.type="string" />
  <key id="d0" for="edge" attr.name="rate" attr.type="long" />
  <graph edgedefault="undirected">
    <node id="a" /><node id="r1" /><node id="r2" /><node id="b" />
    <edge source="a" target="r1" />
    <edge source="r1" target="r2"><data key="d0">10000000</data><data key="d1">5ms</data></edge>
    <edge source="r1" target="r2" />
    <edge source="r2" target="b" />
  </graph>
</graphml>"#;

    /// What `json.dumps(networkx.node_link_data(G))` makes of the same.
    const JSON: &str = r#"{"directed": false, "multigraph": true, "graph": {},
 "nodes": [{"id": "a"}, {"id": "r1"}, {"id": "r2"}, {"id": "b"}],
 "links": [{"source": "a", "target": "r1", "key": 0},
  {"rate": 10000000, "delay": "5ms", "source": "r1", "target": "r2", "key": 0},
  {"source": "r1", "target": "r2", "key": 1}, {"source": "r2", "target": "b", "key": 0}]}"#;

    fn read_text(text: &str, hosts: usize) -> Result<Shape, String> {
        let raw = if text.starts_with('<') { graphml(text) } else { node_link(text) };
        shape(&raw?, hosts, None)
    }

    #[test]
    fn both_ways_of_writing_a_graph_are_the_same() {
        let shape = read_text(GRAPHML, 0).unwrap();
        assert_eq!(read_text(JSON, 0).unwrap(), shape);
        let names: Vec<&str> = shape.links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["a-r1", "r1-r2", "r1-r2-2", "r2-b"]);
        assert_eq!(shape.nodes[0].1, Role::Host, "one link");
        assert_eq!(shape.links[1].rate, Some(Rate::from_mbit(10)));
        assert_eq!(shape.links[1].delay, Some(Duration::from_millis(5)));
        // `json.dumps(list(G.edges(data=True)))`, and numbers with the units of networkx's users.
        let edges = r#"[["a", "r1", {}], ["r1", "r2", {"rate": 1e7, "delay": 0.005}], ["r1", "r2"], ["r2", "b", {}]]"#;
        assert_eq!(read_text(edges, 0).unwrap(), shape);
        let with_hosts = read_text(JSON, 2).unwrap();
        assert_eq!(with_hosts.nodes.len(), 4 + 8);
        assert!(with_hosts.nodes.iter().any(|(name, _)| name == "host-r1-2"));
    }

    /// What networkx calls a weight is a cost if the experiment says so.
    #[test]
    fn edges_have_costs() {
        let text = JSON.replace("\"key\": 1", "\"key\": 1, \"weight\": 2.5");
        let read = |cost| shape(&node_link(&text).unwrap(), 0, cost);
        let costs = |cost| -> Vec<Option<u64>> {
            read(cost).unwrap().links.iter().map(|link| link.cost).collect()
        };
        assert_eq!(costs(Some("weight")), [None, None, Some(2_500_000), None]);
        assert_eq!(costs(None), [None; 4]);
        let error = read(Some("wieght")).unwrap_err();
        assert!(error.contains("no edge has a \"wieght\"") && error.contains("weight"), "{error}");
        let error = shape(&node_link(JSON).unwrap(), 0, Some("weight")).unwrap_err();
        assert!(!error.ends_with("; ") && !error.contains("rate, "), "{error}");
        let error = read(Some("rate")).unwrap_err();
        assert!(error.contains("is not a valid link cost"), "{error}");
    }

    #[test]
    fn faults_are_reported_with_position() {
        let table = [
            ("<graphml><graph>", "1:1"),
            ("<graphml></graphml>", "1:1: there is no <graph>"),
            ("<graphml><graph><node/></graph></graphml>", "1:17: \"id\" is missing"),
            ("{", "1:1: EOF"),
            ("0 1 {'rate': 5}", " this is neither GraphML nor JSON"),
            ("[[1]]", " edge 1: expected [A, B]"),
            (r#"[[1, 2, {"delay": -1}]]"#, " edge 1: \"-1\" is not a number of seconds"),
            ("{}", "is missing"),
            (r#"{"nodes": [{"id": 1}, {"id": "1"}], "links": []}"#, "node 2: another node"),
            (r#"{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 2}]}"#, "link 1: no node"),
            (r#"{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 1}]}"#, "two different"),
            (r#"{"nodes": [{"id": "a b"}], "links": []}"#, "relabel_nodes"),
            (r#"{"directed": true, "nodes": [], "links": []}"#, "to_undirected"),
            (r#"{"nodes": [{"id": 1, "role": "x"}], "links": []}"#, "neither"),
        ];
        for (text, what) in table {
            let error = read_text(text, 0).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
