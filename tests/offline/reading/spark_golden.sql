SELECT * FROM logged_rows WHERE ds <= '2026-01-03';

SELECT
  ds, mdp_id, sequence_number,
  coalesce(state_features, CAST(map() AS MAP<BIGINT, DOUBLE>)) AS state_features,
  coalesce(`action`, '') AS `action`,
  action_probability, action_log_density,
  2.0D * coalesce(try_element_at(metrics, 'm'), 0) AS reward,
  metrics, terminated, truncated, CASE WHEN NOT size(final_state_features) = 0 THEN final_state_features END AS final_state_features,
  CASE WHEN possible_actions IS NOT NULL THEN possible_actions
    WHEN action = '' OR size(possible_actions) = 0 THEN CAST(array() AS ARRAY<STRING>) ELSE CAST(array('a', 'b\'') AS ARRAY<STRING>)
  END AS possible_actions,
  final_possible_actions,
  `ids`,
  `file`, `row`,
  coalesce(action = '' OR size(possible_actions) = 0, false) AS is_end
FROM timeline_input;

SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY mdp_id, sequence_number
    ORDER BY ds, md5(concat_ws('|', coalesce(CAST(`action` AS STRING), 'null'), coalesce(CASE WHEN `action_log_density` IS NOT NULL THEN replace(replace(lower(format_string('%a', `action_log_density`)), '.0p', 'p'), 'infinity', 'inf') END, 'null'), coalesce(CASE WHEN `action_probability` IS NOT NULL THEN replace(replace(lower(format_string('%a', `action_probability`)), '.0p', 'p'), 'infinity', 'inf') END, 'null'), coalesce(CAST(`ds` AS STRING), 'null'), coalesce('[' || array_join(transform(`final_possible_actions`, item -> coalesce(CAST(item AS STRING), 'null')), ',') || ']', 'null'), coalesce('{' || array_join(transform(array_sort(map_entries(`final_state_features`)), pair -> coalesce(CAST(pair.key AS STRING), 'null') || ':' || coalesce(CASE WHEN pair.value IS NOT NULL THEN replace(replace(lower(format_string('%a', pair.value)), '.0p', 'p'), 'infinity', 'inf') END, 'null')), ',') || '}', 'null'), coalesce(CAST(`mdp_id` AS STRING), 'null'), coalesce('{' || array_join(transform(array_sort(map_entries(`metrics`)), pair -> coalesce(CAST(pair.key AS STRING), 'null') || ':' || coalesce(CASE WHEN pair.value IS NOT NULL THEN replace(replace(lower(format_string('%a', pair.value)), '.0p', 'p'), 'infinity', 'inf') END, 'null')), ',') || '}', 'null'), coalesce('[' || array_join(transform(`possible_actions`, item -> coalesce(CAST(item AS STRING), 'null')), ',') || ']', 'null'), coalesce(CASE WHEN `reward` IS NOT NULL THEN replace(replace(lower(format_string('%a', `reward`)), '.0p', 'p'), 'infinity', 'inf') END, 'null'), coalesce(CAST(`sequence_number` AS STRING), 'null'), coalesce('{' || array_join(transform(array_sort(map_entries(`state_features`)), pair -> coalesce(CAST(pair.key AS STRING), 'null') || ':' || coalesce(CASE WHEN pair.value IS NOT NULL THEN replace(replace(lower(format_string('%a', pair.value)), '.0p', 'p'), 'infinity', 'inf') END, 'null')), ',') || '}', 'null'), coalesce(CAST(`terminated` AS STRING), 'null'), coalesce(CAST(`truncated` AS STRING), 'null')))
  ) AS frame_place
  FROM timeline_rows
) WHERE frame_place = 1;

SELECT
  *,
  later_id IS NOT NULL AS continues,
  false AS is_part,
  mdp_id AS episode,
  CASE
    WHEN mdp_key / 1.152921504606847e+18D < 0.8D THEN 'train'
    WHEN mdp_key / 1.152921504606847e+18D >= 0.8D THEN 'eval'
  END AS split,
  CASE
    WHEN markers > 0 THEN 'marker'
    WHEN terminated THEN 'terminal'
    WHEN known THEN 'known'
    WHEN (markers = 0 AND NOT known AND coalesce(terminated, truncated) IS NULL) THEN CASE WHEN later_id IS NOT NULL THEN 'open' ELSE 'terminal' END
    ELSE 'open'
  END AS ending
FROM (
  SELECT
    mdp_id,
    CAST(conv(substr(md5(concat('', mdp_id)), 1, 15), 16, 10) AS BIGINT) AS mdp_key,
    count(*) FILTER (WHERE NOT is_end) AS length,
    min(sequence_number) FILTER (WHERE NOT is_end) AS first,
    max(sequence_number) FILTER (WHERE NOT is_end) AS last,
    count(*) FILTER (WHERE is_end) AS markers,
    NULL AS numbers,
    bool_or(terminated) FILTER (WHERE NOT is_end) AS terminated,
    bool_or(truncated) FILTER (WHERE NOT is_end) AS truncated,
    coalesce(bool_or(final_state_features IS NOT NULL) FILTER (WHERE NOT is_end), false) AS known
  FROM timeline_rows
  GROUP BY mdp_id
) AS grouped
LEFT JOIN (
  SELECT DISTINCT mdp_id AS later_id FROM logged_rows WHERE ds > '2026-01-03'
) AS later ON mdp_id = later_id;

WITH chosen AS (
  SELECT * FROM timeline_episodes WHERE split IS NOT NULL AND length > 0 AND length <= 7.5D
),
joined AS (
  SELECT e.episode, e.mdp_key, e.split, e.ending, e.length, e.first, r.mdp_id, r.sequence_number, r.is_end,
    r.`state_features`, r.`action`, r.`possible_actions`, r.`ids`, r.`action_probability`, r.`action_log_density`, r.`reward`, r.`metrics`
  FROM timeline_rows r JOIN chosen e ON r.mdp_id = e.mdp_id
  UNION ALL
  SELECT e.episode, e.mdp_key, e.split, e.ending, e.length, e.first, r.mdp_id, r.sequence_number + CASE WHEN e.ending = 'known' THEN 1 ELSE 0 END, true,
    coalesce(r.final_state_features, CAST(map() AS MAP<BIGINT, DOUBLE>)), '', CASE
      WHEN e.ending = 'terminal' THEN CAST(array() AS ARRAY<STRING>)
      WHEN size(r.final_possible_actions) = 0 OR r.final_possible_actions IS NULL THEN CAST(array('a', 'b\'') AS ARRAY<STRING>)
      ELSE r.final_possible_actions END, NULL, NULL, NULL, NULL, NULL
  FROM timeline_rows r JOIN chosen e ON r.mdp_id = e.mdp_id
  WHERE e.ending IN ('terminal', 'known') AND r.sequence_number = e.last
),
placed AS (
  SELECT *,
    row_number() OVER by_time AS `ordinal`,
    least(2, length + CASE WHEN ending IN ('open', 'kept') THEN 0 ELSE 1 END - row_number() OVER by_time) AS `steps`,
    last_value(`state_features`) OVER until_next AS `next_state_features`,
    last_value(`action`) OVER until_next AS `next_action`,
    last_value(`possible_actions`) OVER until_next AS `possible_next_actions`,
    last_value(`ids`) OVER until_next AS `next_ids`,
    last_value(`sequence_number`) OVER until_next AS `next_sequence_number`,
    (collect_list(struct(reward AS v)) OVER rewarded).v AS `frame_reward`,
    (collect_list(struct(metrics AS v)) OVER rewarded).v AS `frame_metrics`,
    (collect_list(struct(sequence_number AS v)) OVER rewarded).v AS `frame_sequence_number`
  FROM joined
  WINDOW
    by_time AS (PARTITION BY episode ORDER BY sequence_number, is_end),
    until_next AS (PARTITION BY episode ORDER BY sequence_number, is_end ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING),
    rewarded AS (PARTITION BY episode ORDER BY sequence_number, is_end ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)
)
SELECT
  `mdp_id`,
  `mdp_key`,
  `split`,
  `state_features`,
  `action`,
  `action_probability`,
  aggregate(sequence(CAST(1 AS BIGINT), CAST(greatest(steps, 1) AS BIGINT)), 0D, (total, i) -> total + pow(0.5D, i - 1) * try_element_at(frame_reward, CAST(i AS INT))) AS `reward`,
  CAST(map('m', aggregate(sequence(CAST(1 AS BIGINT), CAST(greatest(steps, 1) AS BIGINT)), 0D, (total, i) -> total + pow(0.5D, i - 1) * coalesce(try_element_at(try_element_at(frame_metrics, CAST(i AS INT)), 'm'), 0))) AS MAP<STRING, DOUBLE>) AS `metrics`,
  `next_state_features`,
  `next_action`,
  `sequence_number`,
  CAST(ordinal AS BIGINT) AS `sequence_number_ordinal`,
  next_sequence_number - sequence_number AS `time_diff`,
  sequence_number - first AS `time_since_first`,
  CAST(greatest(steps, 1) AS BIGINT) AS `step`,
  NOT (steps = 0 OR (ordinal + steps > length AND ending <> 'known')) AS `not_terminal`,
  pow(0.5D, steps) AS `discount`,
  `possible_actions`,
  `possible_next_actions`,
  `ids`,
  `next_ids`
FROM placed
WHERE NOT is_end AND (steps > 0 OR ending = 'kept')
SORT BY xxhash64(mdp_key, sequence_number);

SELECT kind, name, CAST(sum(number) AS BIGINT) FROM (SELECT 'feature' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT map_keys(state_features) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each UNION ALL SELECT 'feature' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT map_keys(final_state_features) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each UNION ALL SELECT 'metric' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT map_keys(metrics) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each UNION ALL SELECT 'action_feature' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT map_keys(`action`) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each UNION ALL SELECT 'action_feature' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT flatten(transform(possible_actions, one -> map_keys(one))) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each UNION ALL SELECT 'action_feature' AS kind, CAST(name AS STRING) AS name, number FROM (SELECT name, sum(lists) AS number FROM (SELECT explode(names) AS name, lists FROM (SELECT flatten(transform(final_possible_actions, one -> map_keys(one))) AS names, count(*) AS lists FROM logged_rows GROUP BY 1)) GROUP BY name) AS each) AS counts WHERE name <> '' GROUP BY kind, name
