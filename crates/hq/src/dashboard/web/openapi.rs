//! The description of the interface in the form of OpenAPI 3.1, made from the table of routes.

use serde_json::{Map, Value, json};

use super::routes::{Parameter, ROUTES, Route};
use crate::error::HqError;

/// What is answered, by name.
const SCHEMAS: &str = include_str!("schemas.json");

/// The description.
pub(super) fn document() -> Result<Value, HqError> {
    let mut schemas: Value = serde_json::from_str(SCHEMAS).map_err(std::io::Error::from)?;
    for route in ROUTES.iter().filter(|route| !matches!(route.schema, "Event" | "Description")) {
        schemas[route.schema]["properties"]["schema_version"] = json!({ "type": "integer" });
    }
    let mut paths = Map::new();
    for route in &ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method().as_str().to_ascii_lowercase()] = operation(route);
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Headquarters dashboard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The API of `hq dashboard --web`. Fields keep their names and meanings; new ones may be \
             added.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "hq-…",
                    "description": "The cookie that is set when the printed link is opened; each link works once.",
                },
            },
        },
        "security": [{ "session": [] }],
    }))
}

fn operation(route: &Route) -> Value {
    let of_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of_path = of_path.map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": format!("Id of the {name}."),
            "schema": { "type": "integer", "minimum": 0 },
        })
    });
    let of_query = route.query.iter().map(query);
    let parameters: Vec<Value> = of_path.chain(of_query).collect();
    let media = if route.schema == "Event" { "text/event-stream" } else { "application/json" };
    let answer = json!({ "schema": { "$ref": format!("#/components/schemas/{}", route.schema) } });
    let mut operation = json!({
        "operationId": format!("{:?}", route.name).to_ascii_lowercase(),
        "summary": route.about,
        "parameters": parameters,
        "responses": {
            "200": { "description": "The answer.", "content": { media: answer } },
            "default": {
                "description": "Why there is no result.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
            },
        },
    });
    if route.is_order {
        operation["description"] =
            "Refused unless the dashboard was started with `--allow-actions` and the header `Origin` is that of its \
             page.".into();
    }
    operation
}

fn query(parameter: &Parameter) -> Value {
    let schema = if parameter.is_number {
        json!({ "type": "integer", "minimum": 0 })
    } else {
        json!({ "type": "string" })
    };
    json!({ "name": parameter.name, "in": "query", "description": parameter.about, "schema": schema })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hyper::Method;

    use super::super::routes::{Found, find};
    use super::*;

    #[test]
    fn what_is_described_is_there_and_nothing_else() {
        let document = document().expect("a document");
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let method: Method = method.to_ascii_uppercase().parse().expect("a method");
                let mut real = path.clone();
                for parameter in operation["parameters"].as_array().expect("parameters") {
                    if parameter["in"] == "path" {
                        let name = parameter["name"].as_str().expect("a name");
                        real = real.replace(&format!("{{{name}}}"), "7");
                    }
                }
                match find(&method, &real) {
                    Found::Route(route, _) => assert_eq!(route.path, path),
                    _ => panic!("{method} {real} leads nowhere"),
                }
                described.insert((path.clone(), method.to_string()));
            }
        }
        let there: BTreeSet<(String, String)> =
            ROUTES.iter().map(|route| (route.path.to_owned(), route.method().to_string())).collect();
        assert_eq!(described, there);
        assert_eq!(there.len(), ROUTES.len(), "each is there once");
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_every_one_is_named() {
        let document = document().expect("a document");
        let text = document.to_string();
        let named: BTreeSet<&str> =
            text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let there: BTreeSet<&str> = document["components"]["schemas"]
            .as_object()
            .expect("schemas")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(named, there);
    }

    #[test]
    fn the_page_of_the_documentation_names_every_path() {
        let page = crate::pages::page("web-api").expect("a page").text;
        for route in &ROUTES {
            let line = format!("`{} {}`", route.method(), route.path);
            assert!(page.contains(&line), "{line}");
            for parameter in route.query {
                assert!(page.contains(&format!("`{}`", parameter.name)), "{} of {line}", parameter.name);
            }
        }
    }
}
